export {
  emptyCall,
  emptyRun,
  runEnded,
  waitingCalls,
  asksWhatNow,
  callOf,
  callsInOrder,
  delayOf,
  isMoreText,
  keepEndedCalls,
  needsYou,
  pauseOf,
} from "./model";
export type { Call, Decider, Item, Problem, RunState } from "./model";
export { patchCall, reduce } from "./reduce";
export { fromSnapshot } from "./snapshot";
