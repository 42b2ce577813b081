// Builds the frames of a run as the runtime would commit them.
const LASTING = ["conversation", "project", "user"];
const SCOPES = ["run", ...LASTING];

/** What Always allow offers, from narrow to wide. */
function rulesFor(id, tool) {
  return [
    {
      text: `allow ${tool} where digest is digest_${id}`,
      label: "This exact call",
      note: "same arguments",
      scopes: LASTING,
    },
    { text: `allow ${tool}`, label: `Every ${tool} call`, note: "any arguments", scopes: SCOPES },
    { text: "allow *", label: "Every call", note: "of every tool, within walls", scopes: ["run"] },
  ];
}

const NONE = { tokens: null, usd: null, tool_calls: null, seconds: null, steps: null };
const USAGE = {
  ...{ input_tokens: 16_720, output_tokens: 1_520, total_tokens: 18_240, tool_calls: 0, steps: 0 },
  ...{ cached_tokens: 9_120, cache_write_tokens: 0, reasoning_tokens: 0, cost: 0.0381, cost_is_partial: false },
};

export class Recording {
  constructor(name, options = {}) {
    this.conversation = name;
    this.run = `run_${name}`;
    this.frames = [];
    this.clock = Date.now() - (options.age ?? 102_000);
    this.view = {
      run_id: this.run,
      conversation_id: name,
      prompt: options.prompt ?? "Find duplicate orders in `orders`, and drop the later copies.",
      status: "running",
      model: options.model ?? "gpt-5.2",
      recorded: options.recorded ?? false,
      policy: { mode: options.mode ?? "ask", rules: options.rules ?? [] },
      usage: USAGE,
      budget: { ...NONE, tokens: 200_000 },
      started_at: this.time(),
      ended_at: null,
      error: /** @type {any} */ (null),
      paused: /** @type {any} */ (null),
      delay: /** @type {any} */ (null),
      raises: /** @type {any[]} */ ([]),
      notices: /** @type {any[]} */ ([]),
    };
    this.send({ type: "run", run: this.view });
    this.send({ type: "message", message_id: `${name}-user`, role: "user", content: this.view.prompt });
  }
  time(ms = 0) {
    this.clock += ms;
    return new Date(this.clock).toISOString();
  }
  send(event, ms = 100) {
    this.frames.push({
      seq: this.frames.length + 1,
      conversation_id: this.conversation,
      run_id: this.run,
      timestamp: this.time(ms),
      ...event,
    });
    return this;
  }
  /** The run is otherwise from now on. @param {object} fields */
  becomes(fields) {
    this.view = { ...this.view, ...fields };
    return this.send({ type: "run", run: this.view });
  }
  say(text, done = true) {
    const id = `${this.run}-msg-${this.frames.length}`;
    for (const content of text.match(/[\s\S]{1,7}/g)) this.send({ type: "token", message_id: id, content }, 20);
    return done ? this.send({ type: "message", message_id: id, role: "assistant", content: text }) : this;
  }
  propose(id, tool_name, input) {
    return this.send({
      type: "tool_state",
      tool_call_id: id,
      tool_name,
      tool_input: input === null ? null : JSON.stringify(input),
      state: "proposed",
      waiting_behind: null,
    });
  }
  ask(id, tool_name, input, extra = {}) {
    this.propose(id, tool_name, input);
    return this.send({
      type: "approval_request",
      approval_id: `apr_${id}`,
      tool_call_id: id,
      tool_name,
      tool_input: JSON.stringify(input),
      digest: `digest_${id}`,
      warnings: [],
      preview: null,
      scopes: ["once", ...SCOPES],
      rules: rulesFor(id, tool_name),
      expires_at: null,
      ...extra,
    });
  }
  answer(id, approved, extra = {}) {
    return this.send({
      type: "approval_response",
      approval_id: `apr_${id}`,
      tool_call_id: id,
      approved,
      reason: null,
      edited: false,
      by: "user",
      decided_by: null,
      ...extra,
    });
  }
  /** A question to the person, which waits. */
  question(id, asked) {
    return this.propose(id, "ask_user", asked).start(id, "ask_user", asked);
  }
  start(id, tool_name, input, extra = {}) {
    return this.send({
      type: "tool_start",
      tool_call_id: id,
      tool_name,
      tool_input: JSON.stringify(input),
      preview: null,
      ...extra,
    });
  }
  output(id, index, output) {
    return this.send({
      type: "tool_output",
      tool_call_id: id,
      index,
      output: { kind: "stream", name: null, text: "", data: {}, metadata: {}, display_id: null, ...output },
    });
  }
  end(id, tool_name, state, extra = {}) {
    const status = { invalid: "error", superseded: "cancelled", expired: "cancelled" }[state] ?? state;
    return this.send({
      type: "tool_complete",
      tool_call_id: id,
      tool_name,
      tool_result: "",
      status,
      state,
      duration_ms: null,
      cached_at: null,
      truncated: false,
      output_file: null,
      reason: null,
      undo: null,
      ...extra,
    });
  }
  did(id, tool_name, input, ms, outputs = [], by = "user") {
    this.propose(id, tool_name, input).answer(id, true, { by }).start(id, tool_name, input);
    outputs.forEach((output, index) => this.output(id, index, output));
    return this.end(id, tool_name, "success", { duration_ms: ms });
  }
  /** @param {string[]} reached @param {object} limits */
  pause(reached, limits, usage = {}, seconds = 378, unpriced = false) {
    const pause_id = `pause_${this.frames.length}`;
    const error = { code: "BUDGET_EXCEEDED", message: "Budget reached.", tool_call_id: null, details: { pause_id } };
    return this.send({ type: "error", ...error }).becomes({
      usage: { ...this.view.usage, ...usage },
      budget: { ...this.view.budget, ...limits },
      paused: { pause_id, reached, seconds, since: this.time(), unpriced },
    });
  }
  /** @param {string} repeated */
  repeat(repeated) {
    this.pause([], {});
    return this.becomes({ paused: { ...this.view.paused, repeated } });
  }
  /** @param {object} add @param {string | null} decided_by */
  raise(add, decided_by = null, without_usd = false) {
    const raise = {
      pause_id: this.view.paused.pause_id,
      add: { ...NONE, ...add },
      without_usd,
      of: this.view.paused.of ?? "run",
      repeated: this.view.paused.repeated ?? "",
      at: this.time(),
      decided_by,
      steps: this.view.usage.steps,
    };
    return this.becomes({ paused: null, raises: [...this.view.raises, raise] });
  }
  /** @param {object | null} delay */
  delay(delay) {
    return this.becomes({ delay });
  }
  notice(content, detail = "") {
    const notice = { content, detail, at: this.time(), steps: this.view.usage.steps };
    return this.becomes({ notices: [...this.view.notices, notice] });
  }
  finish(status = "complete") {
    this.send({
      type: "complete",
      message_id: null,
      finish_reason: status === "complete" ? "stop" : status,
      usage: this.view.usage,
      error: null,
    });
    return this.send({ type: "run", run: { ...this.view, status, ended_at: this.time() } });
  }
  session() {
    const snapshot = {
      conversation_id: this.conversation,
      kernel_id: null,
      model: null,
      status: "running",
      created_at: this.frames[0].timestamp,
      messages: [],
      tool_calls: [],
      last_seq: this.frames.length,
      runs: [this.view],
    };
    return {
      type: "session",
      command_id: null,
      resume_from: 0,
      seq: this.frames.length,
      conversation_id: this.conversation,
      run_id: null,
      timestamp: new Date().toISOString(),
      protocol: 1,
      tools: [],
      snapshot,
      pending: [],
      last_seq: this.frames.length,
    };
  }
}
