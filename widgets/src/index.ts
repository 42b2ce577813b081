/** The anywidget: a channel per conversation, a view per output. */
import { h, render as mount } from "preact";
import { keepsFocus } from "./ui/focus";
import {
  KernelTransport,
  type MessageModel,
  SocketTransport,
  type Transport,
  channelAddress,
} from "./channel/transport";
import { Channel } from "./channel/channel";
import { keepsKeysInRecords, keepsTyping } from "./ui/notebook";
import type { WidgetManager } from "./card/notebookRenderers";
import { keepsPlace } from "./ui/keepPlace";
import { NotebookContext } from "./card/context";
import { Run } from "./run/run";
import css from "./styles.css";

const STYLE_ID = "agent-kernel-styles";

interface Traits {
  readonly conversation_id: string;
  readonly run_id: string;
  readonly prompt: string;
  readonly transport: string;
  readonly unserved: boolean;
}

interface Model extends MessageModel {
  readonly widget_manager?: WidgetManager | undefined;
  get<Trait extends keyof Traits>(trait: Trait): Traits[Trait];
}

/** Held for as long as the model lives: frames of the embedded host come to the model, whether or not it is shown. */
function initialize({ model }: { model: Model }): (() => void) | undefined {
  return model.get("transport") === "kernel" ? lease(model).release : undefined;
}

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const { channel, release } = lease(model);
  const run = h(Run, {
    channel,
    runId: model.get("run_id"),
    prompt: model.get("prompt"),
    unserved: model.get("unserved"),
  });
  mount(h(NotebookContext.Provider, { value: model.widget_manager, children: run }), el);
  const leavePlace = keepsPlace(el);
  keepsTyping(el);
  const leave = keepsFocus(el);
  return () => {
    leavePlace();
    leave();
    mount(null, el);
    release();
  };
}

/** A channel that views share, and the number of these. */
interface Shared {
  readonly channel: Channel;
  views: number;
  closing: ReturnType<typeof setTimeout> | undefined;
}

/** A view that moves in the page is taken away and rendered again; its channel is kept that long. */
const KEEP_MS = 2_000;
const channels = new Map<string, Shared>();

function lease(model: Model): { readonly channel: Channel; readonly release: () => void } {
  if (model.get("transport") === "kernel")
    return leaseChannel(`kernel/${model.get("run_id")}`, () => new KernelTransport(model));
  const id = model.get("conversation_id");
  return leaseChannel(`server/${id}`, () => new SocketTransport(channelAddress(id)));
}

function leaseChannel(key: string, open: () => Transport): ReturnType<typeof lease> {
  const shared = channels.get(key) ?? { channel: new Channel(open()), views: 0, closing: undefined };
  channels.set(key, shared);
  shared.views += 1;
  clearTimeout(shared.closing);
  const release = (): void => {
    shared.views -= 1;
    if (shared.views > 0) return;
    shared.closing = setTimeout(() => {
      channels.delete(key);
      shared.channel.close();
    }, KEEP_MS);
  };
  return { channel: shared.channel, release };
}

/** One style sheet for the page. That of a newer version takes the place of an older one's, as its cards come. */
function useStyles(): void {
  const style = document.getElementById(STYLE_ID) ?? document.createElement("style");
  if (style.textContent !== css) style.textContent = css;
  if (style.isConnected) return;
  style.id = STYLE_ID;
  document.head.append(style);
}

useStyles();
keepsKeysInRecords();

export default { initialize, render };
