"""The loop: a LangGraph graph that routes between the model and the tool calls of conversations.

`runtime` is the entry, `conversation` what may be asked of one of its conversations, `run` one run while it goes,
`graph` the way between the nodes: `turns` has the model's, `tool_calls` the tools'. `runs` is about a run as a whole,
`clients` about what pages are told."""
