/** Durations, times and numbers as the cards say them. */

export function duration(ms: number): string {
  if (ms < 50) return "< 0.1 s";
  if (ms < 9_950) return `${(ms / 1000).toFixed(1)} s`;
  return wholeSeconds(ms);
}

/** A clock that ticks: no tenths. */
export function wholeSeconds(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** The time of day of a UTC timestamp, in the reader's zone: 14:06:31. */
export function timeOfDay(timestamp: string): string {
  const date = new Date(timestamp);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
}

export function tokens(count: number): string {
  if (count < 1_000) return String(count);
  if (count < 1_000_000) return `${(count / 1_000).toFixed(1)}k`;
  return `${(count / 1_000_000).toFixed(1)}M`;
}

/** A limit is a round number: 200k, not 200.0k. */
export function limit(count: number): string {
  return tokens(count).replace(".0", "");
}

/** 200,000 */
export function count(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

export function plural(count: number, one: string): string {
  return `${count} ${one}${count === 1 ? "" : "s"}`;
}
