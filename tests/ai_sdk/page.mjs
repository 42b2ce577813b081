// A page without a browser: the AI SDK's own chat, driven by lines of JSON on standard input.
import { createInterface } from "node:readline";

const [version, api, token] = process.argv.slice(2);
const sdk = await import(`ai${version}`);
const chats = new Map();
const rules = {
  approvals: sdk.lastAssistantMessageIsCompleteWithApprovalResponses,
  outputs: sdk.lastAssistantMessageIsCompleteWithToolCalls,
};
const readers = await Promise.all(
  ["ai6", "ai7"].map(async (name) => {
    const { uiMessageChunkSchema: schema } = await import(name);
    return typeof schema === "function" ? schema() : schema;
  }),
);
const unread = new Set();
const authorization = { Authorization: `token ${token}` };

class State {
  status = "ready";
  error = undefined;

  constructor(messages) {
    this.messages = messages;
  }

  pushMessage = (message) => {
    this.messages = [...this.messages, message];
  };

  popMessage = () => {
    this.messages = this.messages.slice(0, -1);
  };

  replaceMessage = (index, message) => {
    this.messages = this.messages.with(index, structuredClone(message));
  };

  snapshot = structuredClone;
}

// Asks both versions whether they read a response's chunks.
async function check(body) {
  let text = "";
  for await (const piece of body.pipeThrough(new TextDecoderStream())) {
    const lines = (text + piece).split("\n\n");
    text = lines.pop();
    for (const line of lines.filter((one) => one.startsWith("data: {"))) {
      const chunk = JSON.parse(line.slice(6));
      const read = await Promise.all(readers.map((reader) => reader.validate(chunk)));
      if (!read.every((one) => one.success)) unread.add(chunk.type);
    }
  }
}

async function watched(url, init) {
  const response = await fetch(url, init);
  if (!response.ok || !response.body) return response;
  const [shown, checked] = response.body.tee();
  check(checked).catch(() => {}); // the page has left
  return new Response(shown, response);
}

class Chat extends sdk.AbstractChat {
  requests = [];
  failures = [];

  constructor({ id, messages, body }) {
    super({
      id,
      state: new State(messages ?? []),
      transport: new sdk.DefaultChatTransport({
        api,
        headers: authorization,
        body,
        fetch: (url, init) => {
          this.requests.push({ method: init.method, body: init.body && JSON.parse(init.body) });
          return watched(url, init);
        },
      }),
      sendAutomaticallyWhen: (state) => rules.approvals(state) || rules.outputs(state),
      onError: (error) => this.failures.push(String(error.message)),
    });
  }
}

const commands = {
  open: (args) => void chats.set(args.chat, new Chat(args)),
  send: (args) => chats.get(args.chat).sendMessage({ text: args.text, files: args.files }),
  send_answers: (args) => chats.get(args.chat).sendMessage(),
  begin: (args) => void chats.get(args.chat).sendMessage({ text: args.text }),
  regenerate: (args) => chats.get(args.chat).regenerate(),
  decide: ({ chat, ...answer }) => chats.get(chat).addToolApprovalResponse(answer),
  output: ({ chat, ...output }) => chats.get(chat).addToolOutput(output),
  begin_resume: (args) => void chats.get(args.chat).resumeStream(),
  stop: (args) => chats.get(args.chat).stop(),
  replace: (args) => void (chats.get(args.chat).messages = args.messages),
  state: (args) => {
    const { id, messages, status, requests, failures } = chats.get(args.chat);
    return { id, messages, status, failures, requests };
  },
  chunks: () => [...unread],
  validate: async (args) => (await sdk.validateUIMessages({ messages: args.messages })).length,
};

for await (const line of createInterface({ input: process.stdin })) {
  const { command, ...args } = JSON.parse(line);
  const answer = (reply) => process.stdout.write(`${JSON.stringify(reply)}\n`);
  Promise.resolve()
    .then(() => commands[command](args))
    .then((value) => answer({ value: value ?? null }))
    .catch((error) => answer({ error: String(error.stack) }));
}
