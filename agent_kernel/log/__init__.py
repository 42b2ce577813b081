"""The log: the one truth about conversations, runs, messages, events and tool calls (SQLite, append-only).

The file: `store` is an open log, `threads` its threads, `transactions` what is committed together, `opening` how the
file is opened, `log_file` whether it is still the same on disk, `owners` which process carries a run out,
`file_faults` what can be wrong, `tables` the schema, `packing` how long texts are stored.
The tables: `runs` (and conversations), `event_rows` (and messages), `tool_calls`, `stored_images`, `stored_messages`,
`compactions`, `turn_costs`, `saved_rules`, and the audit trail in `audit`. `queries` reads many conversations at once
for clients.
"""
