"""The loop: a LangGraph graph that routes between the model and the tool calls of conversations.

`brain` is the entry; `conversation` queues runs; `run` is one run while it goes; `graph` wires `model_step` and
`tool_step`; `feed` streams committed events to faces.
"""
