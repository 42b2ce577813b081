"""The agent loop: conversations, their runs, and the LangGraph graph that routes between the model and its tool calls.

From the bottom: `settings`; `state`, a run while it goes; `clients`, the events and snapshots for clients; `tool_calls`
and `turns`, the nodes of `graph`; `runs`, the life of a run as a whole; `conversation`; and `runtime`, the entry."""
