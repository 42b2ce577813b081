"""A call that a model wrote as text is recognised by its markup, and an answer about such markup is an answer."""

import pytest

from agent_kernel.models.text_calls import TextCall, text_call

TOOLS = ("run_python", "look")
JSON = '{"name": "run_python", "arguments": {"code": "print([`1`])\\n"}}'
FUNCTION = "<function=run_python>\n<parameter=code>\n1 > 0\n</parameter>\n</function>\n</tool_call>"
INVOKE = '<invoke name="run_python">\n<parameter name="code">1</parameter>\n</invoke>'
LLAMA = '{"name": "run_python", "parameters": {"code": "1"}}'
DEEPSEEK = "<|tool▁calls▁begin|><|tool▁call▁begin|>{}<|tool▁call▁end|><|tool▁calls▁end|>".replace("|", "\uff5c")
SEPARATOR = "<\uff5ctool▁sep\uff5c>"
KIMI = '<|tool_call_begin|>functions.run_python:0<|tool_call_argument_begin|>{"code": "1"}<|tool_call_end|>'
CALLS = {
    "hermes": f"<tool_call>\n{JSON}\n</tool_call>",
    "qwen coder": f"<tool_call>\n{FUNCTION}",
    "glm": "<tool_call>run_python\n<arg_key>code</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
    "phi": f"<|tool_call|>[{JSON}]<|/tool_call|>",
    "gemma": '<|tool_call>call:run_python{code:<|"|>1<|"|>}<tool_call|>',
    "claude": f"<function_calls>\n{INVOKE}\n</function_calls>",
    "minimax": f"<minimax:tool_call>\n{INVOKE}\n</minimax:tool_call>",
    "mistral": f"[TOOL_CALLS][{JSON}]",
    "llama": f"<|python_tag|>{LLAMA}<|eom_id|>",
    "llama without a mark": LLAMA.replace("{", '{"type": "function", ', 1),
    "llama as python": '[look(), run_python(code="1")]',
    "gemini": 'print(default_api.run_python(code="1"))',
    "harmony": "<|channel|>commentary to=functions.run_python <|constrain|>json<|message|>{}<|call|>",
    "harmony in letters": 'commentary to=functions.run_python json{"code":"1"}',
    "harmony, all of it": "analysisWe need it.assistantcommentary to=functions.run_pythonjson{}assistantfinalIt is 3.",
    "deepseek": DEEPSEEK.format(f"function{SEPARATOR}run_python\n```json\n{{}}\n```"),
    "deepseek v3.2": f"<|DSML|function_calls>\n<|DSML|{INVOKE[1:]}\n</|DSML|function_calls>".replace("|", "\uff5c"),
    "kimi": f"<|tool_calls_section_begin|>{KIMI}<|tool_calls_section_end|>",
}
BARE = ("{", "[{", "[look", "run_python(", "print(")
MARKED = {name: call for name, call in CALLS.items() if not call.startswith(BARE)}
each_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@each_call
def test_a_call_is_the_whole_text(call: str) -> None:
    tool = "look" if call.startswith("[look") else "run_python"
    assert text_call(f"\n{call}\n", TOOLS) in (TextCall(1, tool), TextCall(0, tool))


@pytest.mark.parametrize("call", MARKED.values(), ids=MARKED)
def test_a_call_is_followed_by_what_it_is_made_to_have_given(call: str) -> None:
    assert text_call(f"{call}\nThe sum is 3.", TOOLS)
    if not call.startswith("analysis"):
        assert text_call(f"Let me look:\n{call}\nThe sum is 3.", TOOLS) == TextCall(13, "run_python")


@each_call
def test_markup_in_code_is_part_of_an_answer(call: str) -> None:
    for answer in (
        f"```\n{call}\n```",
        f"It writes this:\n\n~~~xml\n{call}\n~~~\n",
        f"Its server reads `{call.splitlines()[0]}` and what follows.",
        "So:\n\n    " + call.replace("\n", "\n    ") + "\n",
    ):
        if "```" not in call:
            assert text_call(answer, TOOLS) is None


@pytest.mark.parametrize(
    "answer",
    [
        'Qwen models emit <tool_call>{"name": "f"}</tool_call> blocks, and vLLM parses them.',
        'The log has the text [TOOL_CALLS][{"name": 1}] in 3 of 100 rows, and no call.',
        '{"name": "Ana", "arguments": {"for": 1}}',
        "I would use run_python(code) for that.",
        "run_python(code=1) is how it is called.",
        "The tag <tool_call> begins a call, </tool_call> ends it.",
        "[TOOL_CALLS] is a token of Mistral's, <|python_tag|> one of Llama's.",
    ],
)
def test_an_answer_is_no_call(answer: str) -> None:
    assert text_call(answer, TOOLS) is None


@pytest.mark.parametrize("text", ["<tool_call>{", "`", "analysis", "to=functions.x "])
def test_a_long_text_of_any_kind_is_read_in_a_time_that_grows_as_it_does(text: str) -> None:
    text_call(text * 100_000 + ".", TOOLS)
