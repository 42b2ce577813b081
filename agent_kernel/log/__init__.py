"""The log: the one truth about conversations, runs, messages, events and tool calls (SQLite, append-only).

The file: `store` is an open log, its thread and what is committed together, `opening` how the
file is opened, `log_file` whether it is still the same on disk, `owners` which process carries a run out,
`file_faults` what can be wrong, `tables` the schema, `packing` how long texts are stored.
The tables: `runs` (and conversations), `event_rows`, `message_rows` (and compactions, and the inbox), `tool_calls`,
`stored_images`, `measures`, `saved_rules`, `client_calls`, and the audit trail: `audit`, with its head in `audit_head`.
"""
