"""`%agent models`, and the tab key after `--model`."""

from collections.abc import Callable

import pytest

from agent_kernel.notebook.model_list import table
from agent_kernel.protocol.lists import EndpointView, ModelsView, ModelView
from agent_kernel.testing import FakeOpenAI
from tests.notebooks.kernel import TestKernel

PAGES = {
    "/v1/models": {"data": [{"id": "qwen3:8b", "max_model_len": 40_960}, {"id": "llava:13b", "max_model_len": 4_096}]}
}
VIEW = ModelsView(
    default="qwen3:8b",
    default_reason="AGENT_KERNEL_MODEL names it.",
    endpoints=[
        EndpointView(
            name="openai",
            api="chat",
            models=[
                ModelView(name="qwen3:8b", tools=True, context_tokens=40_960),
                ModelView(name="llava", images=True),
                ModelView(name="phi", context_tokens=4_096, context_is_learned=True),
            ],
            left_out=7,
        ),
        EndpointView(name="lab", error="The endpoint 'lab' is not configured as it should be: it has no base_url."),
    ],
)


def test_the_list_says_what_takes_tools_and_images_and_how_long_the_context_is() -> None:
    assert table(VIEW) == (
        "The default model is qwen3:8b. AGENT_KERNEL_MODEL names it.\n\n"
        "openai\n"
        "  model     tools  images  context\n"
        "  qwen3:8b  yes    ?       40,960\n"
        "  llava     ?      yes     ?\n"
        "  phi       ?      ?       4,096 (from a refusal)\n"
        "  and 7 more\n\n"
        "lab: The endpoint 'lab' is not configured as it should be: it has no base_url.\n\n"
        "--model demo is a recording, which needs no key."
    )


@pytest.mark.kernel
@pytest.mark.slow
class TestInAKernelWithoutAServer:
    def test_lists_and_completes_what_the_endpoints_offer(self, start_kernel: Callable[..., TestKernel]) -> None:
        with FakeOpenAI(pages=PAGES) as server:
            kernel = start_kernel(**server.environment("qwen3:8b"))
            kernel.run("%load_ext agent_kernel")
            listed = kernel.run("%agent models").streams()
            assert "The default model is qwen3:8b" in listed
            assert "qwen3:8b   yes    ?       40,960" in listed
            assert kernel.complete("%%agent --model qw") == ["%%agent --model qwen3:8b"]
            assert kernel.complete("%agent --model llava:1") == ["%agent --model llava:13b"]
        assert [asked.path for asked in server.asked] == ["/v1/models"]
