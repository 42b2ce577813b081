"""The log: the one truth about conversations, runs, messages, events and tool calls (SQLite, append-only).

`store` owns the file and its thread, `transactions` what is committed together, `migrations` the schema; `journal`
events and messages, `blocks` the events of what is over, `bodies` and `dictionaries` how texts are compressed;
`reading` what clients are told, `reader` the thread of long reads; `inbox` the messages that a busy run has not taken
yet; `ledger` the tool calls' state machine, `call_rows` their columns; `audit` and `trail` the decisions and outcomes;
`runs` conversations and runs, `owners` whose they are; `rules` the always-allow rules.
"""
