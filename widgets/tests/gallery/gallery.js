// Shows the scenes with the real bundle; only the socket is played.
import client from "../../agent_kernel_widgets/static/index.js";
import { SCENES } from "./scenes.js";

const query = new URLSearchParams(location.search);
document.documentElement.dataset.theme = query.get("theme") ?? "light";
const wanted = query.get("scene");
const sockets = new Map();
let refuse = false;

class PlayedSocket {
  readyState = 0;
  constructor(url) {
    const name = decodeURIComponent(/conversations\/([^/]+)\//.exec(url)[1]);
    this.scene = SCENES.find((scene) => scene.name === name);
    sockets.set(name, this);
    setTimeout(() => (refuse ? this.drop() : this.open()));
  }
  open() {
    this.readyState = 1;
    this.onopen?.();
    this.say(this.scene.recording.session());
  }
  say(event) {
    this.onmessage?.({ data: JSON.stringify(event) });
  }
  send(text) {
    const command = JSON.parse(text);
    if (command.type === "resume")
      for (const frame of this.scene.recording.frames.slice(command.last_seq)) this.say(frame);
  }
  drop() {
    refuse ||= this.scene.name.startsWith("offline") && wanted !== null;
    this.readyState = 3;
    this.onclose?.();
  }
  close() {
    this.readyState = 3;
  }
}
window.WebSocket = PlayedSocket;

for (const scene of SCENES) {
  if (wanted ? scene.name !== wanted : scene.alone || scene.name === "offline") continue;
  const title = document.createElement("h2");
  title.textContent = scene.name;
  const output = document.createElement("div");
  output.className = "output";
  output.style.width = `${query.get("width") ?? 820}px`;
  document.body.append(title, output);
  const traits = {
    conversation_id: scene.name,
    run_id: scene.recording.run,
    prompt: scene.recording.view.prompt,
    transport: "server",
  };
  client.render({ model: { get: (name) => traits[name] }, el: output });
  setTimeout(() => scene.act?.(output, sockets.get(scene.name)), 300);
}
