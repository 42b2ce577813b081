import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { KernelTransport, type MessageModel } from "../src/channel/transport";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function widget() {
  const callbacks = new Map<string, (message: unknown) => void>();
  const sent: unknown[] = [];
  const model: MessageModel = {
    on: (event, callback) => void callbacks.set(event, callback),
    off: (event) => void callbacks.delete(event),
    send: (content) => void sent.push(content),
  };
  return { model, sent, receive: (message: unknown) => callbacks.get("msg:custom")?.(message) };
}

test("a page asks for its events again until the kernel answers, as a first message may be held until the cell ends", () => {
  const { model, sent, receive } = widget();
  const frames: string[] = [];
  const transport = new KernelTransport(model);
  transport.start({
    opened: () => {},
    frame: (frame) => frames.push(frame),
    lost: () => {},
    trouble: () => {},
    ended: () => {},
  });
  transport.send({ type: "resume", last_seq: 0 });
  vi.advanceTimersByTime(2_500);
  expect(sent).toHaveLength(3);

  receive({ frames: ["one"] });
  vi.advanceTimersByTime(10_000);
  expect(sent).toHaveLength(3);
  expect(frames).toEqual(["one"]);
});

test("a page that goes away asks no more", () => {
  const { model, sent } = widget();
  const transport = new KernelTransport(model);
  transport.start({
    opened: () => {},
    frame: () => {},
    lost: () => {},
    trouble: () => {},
    ended: () => {},
  });
  transport.send({ type: "resume", last_seq: 0 });
  transport.close();
  vi.advanceTimersByTime(10_000);
  expect(sent).toHaveLength(1);
});
