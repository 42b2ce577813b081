"""The dictionaries with which bodies are compressed: the protocol's words, the commonest last.

They are part of the file format. One that a release has used is never changed: a better one is a new one.
"""

FIRST = (
    b'"details":{},"error":null,"expires_at":null,"scopes":["once","conversation","project","user"],"rules":[{"text":"'
    b'allow run_python where digest is ","label":"This exact call","note":"same arguments"}],"preview":{"kind":"code",'
    b'"language":"python","text":"import pandas as pd\\n"},"warnings":[{"title":"Writes files:","detail":""}],'
    b'"output":{"kind":"display","name":null,"text":"","data":{"text/html":"","text/plain":"","image/png":"'
    b'"},"display_id":null}}"output":{"kind":"stream","name":"stdout","text":"","data":{},"display_id":null}},"index":0,'
    b'"approved":true,"reason":null,"edited":false,"by":"user","decided_by":null}"by":"policy","approval_id":"apr_'
    b'","tool_result":"(run_python completed with no output)","status":"success","duration_ms":1,"truncated":false,'
    b'"output_file":null,"state":"success","reason":null}"digest":"","tool_input":"{\\"code\\":\\"print(","state":'
    b'"proposed"}"tool_name":"inspect_variables","tool_call_id":"call_","tool_name":"run_python","tool_call_id":"call_'
    b'{"role":"user","content":"","environment":"Notebook: "}{"role":"tool","tool_call_id":"call_","content":"'
    b'{"role":"assistant","content":"","tool_calls":[{"id":"call_","type":"function","function":{"name":"run_python",'
    b'"arguments":"{\\"code\\":\\""}}]}"run":{"run_id":"run_","conversation_id":"conv_","prompt":"","status":"running",'
    b'"model":"gpt-5.2","recorded":false,"policy":{"mode":"ask","rules":[]},"usage":{"input_tokens":0,"output_tokens":0,'
    b'"total_tokens":0,"tool_calls":0,"steps":0},"budget":{"tokens":null,"tool_calls":100,"seconds":null,"steps":100},'
    b'"started_at":"2026-","ended_at":null,"error":null}}"message_id":"msg_","finish_reason":"stop","usage":{'
    b'"input_tokens":0,"output_tokens":0,"total_tokens":0,"tool_calls":1,"steps":2}{"run_id":"run_","timestamp":"2026-'
    b'Z","type":"run","run":{"type":"tool_state","type":"approval_response","type":"tool_start","type":"tool_output",'
    b'"type":"tool_complete","type":"complete","type":"message","message_id":"msg_","role":"assistant","content":"'
    b'{"run_id":"run_","timestamp":"2026-Z","type":"token","message_id":"msg_","content":"'
)
"""Of format 1: events and messages."""

SECOND = (
    b'{"role":"system","content":"{"role":"user","content":"","environment":""}","reasoning":"'
    b'"action":"saved","rule":"allow ","rule_id":"rule_","kind":"rule","kind":"undo","decision":"denied","reason":"'
    b'"state":"cancelled","state":"error","state":"unknown","by":"user","decided_by":"","scope":"conversation"'
    b'{"approval_id":"apr_","arguments":"{\\"code\\":\\"","at":"2026-","by":"policy","conversation_id":"conv_'
    b'","decided_by":null,"decision":"approved","digest":"","edited":false,"kind":"decision","number":1,"previous":"'
    b'","reason":null,"run_id":"run_","scope":"once","tool_call_id":"call_","tool_name":"run_python","version":1}'
    b'{"approval_id":"apr_","arguments":"{}","at":"2026-","by":"policy","conversation_id":"conv_","decided_by":null,'
    b'"digest":"","duration_ms":0,"edited":false,"kind":"outcome","number":2,"previous":"","reason":null,"run_id":"run_'
    b'","started_at":"2026-","state":"success","tool_call_id":"call_","tool_name":"run_python","version":1}'
) + FIRST
"""Of formats 2 and 3: the audit trail as well."""
