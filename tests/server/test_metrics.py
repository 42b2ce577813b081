"""The measures of a server: as JSON for those who may look, and for Prometheus on Jupyter Server's own page."""

from decimal import Decimal

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from agent_kernel.log.measures import CallMeasure, RunMeasure, Turn
from agent_kernel.testing import FakeOpenAI, call, calls, say
from agent_kernel_server import prometheus
from tests.server.client import Api, Fetch, Kernel
from tests.server.serving import Server

Samples = dict[str, float]
"""Values by name and labels; the times of creation are left out."""

CELL = """%load_ext agent_kernel
import agent_kernel as ak
@ak.tool(approval="allow", read_only=True)
def count_secret_rows() -> int:
    "Count."
    return 3
"""


async def scrape(fetch: Fetch) -> Samples:
    """Without buckets."""
    samples = read_page((await fetch("metrics")).body.decode())
    return {key: value for key, value in samples.items() if "_bucket" not in key}


def read_page(page: str) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples if family.name.startswith("agent_kernel_") else ():
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            if not sample.name.endswith("_created"):
                found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def grown(before: Samples, after: Samples) -> Samples:
    """What became more: the tests of a process share the page."""
    return {key: round(value - before.get(key, 0), 6) for key, value in after.items() if value != before.get(key, 0)}


@pytest.mark.kernel
@pytest.mark.usefixtures("fresh")
async def test_what_a_notebook_did_is_on_both_pages(
    api: Api, server: Server, kernel: Kernel, model: FakeOpenAI
) -> None:
    before = await scrape(server.fetch)
    model.add(
        calls(call("run_python", code="'xyz'"), call("count_secret_rows"), call("made_up\n{unheard_of}")),
        say("Done.", usage=(1_000, 100)),
    )
    await kernel.run(CELL)
    await kernel.run("%%agent --tools run_python,count_secret_rows\nAdd up the secret.")
    waiting = await api.next_approval()
    assert grown(before, await scrape(server.fetch))["agent_kernel_open_runs"] == 1, "while it goes on"
    await api.decide(waiting)
    [run] = (await api.ended(waiting["conversation_id"]))["runs"]
    after = grown(before, await scrape(server.fetch))
    seconds = {key: after.pop(key) for key in list(after) if key.partition("{")[0].endswith("_seconds_sum")}
    usage = run["usage"]
    assert after == {
        "agent_kernel_calls_total{decided_by=user,status=success,tool=run_python}": 1,
        "agent_kernel_calls_total{decided_by=policy,status=success,tool=own}": 1,
        "agent_kernel_calls_total{decided_by=,status=error,tool=unknown}": 1,
        "agent_kernel_call_errors_total{kind=invalid,tool=unknown}": 1,
        "agent_kernel_call_seconds_count{tool=run_python}": 1,
        "agent_kernel_call_seconds_count{tool=own}": 1,
        "agent_kernel_wait_seconds_count{tool=run_python}": 1,
        "agent_kernel_result_bytes_count{tool=run_python}": 1,
        "agent_kernel_result_bytes_sum{tool=run_python}": len("'xyz'"),
        "agent_kernel_result_bytes_count{tool=own}": 1,
        "agent_kernel_result_bytes_sum{tool=own}": len("3"),
        "agent_kernel_tokens_total{kind=input,model=fake}": usage["input_tokens"],
        "agent_kernel_tokens_total{kind=output,model=fake}": usage["output_tokens"],
        "agent_kernel_runs_total{status=complete}": 1,
        "agent_kernel_first_token_seconds_count": 1,
    }
    assert min(seconds.values()) >= 0
    page = (await server.fetch("metrics")).body.decode()
    assert not [word for word in ("secret", "made_up", "unheard_of", "xyz", run["run_id"]) if word in page]

    report = await api.get("metrics", days="1")
    assert (report["totals"]["calls"], report["totals"]["decided_by"]) == (3, {"user": 1, "policy": 1})
    assert report["runs"]["statuses"] == {"complete": 1}
    [shown] = [one for one in await kernel.run("%agent stats") if one["msg_type"] == "display_data"]
    assert "count_secret_rows 1 1 0 0" in " ".join(shown["content"]["data"]["text/plain"].split())


def measured(tool: str) -> CallMeasure:
    of_server = tool == "github__search"
    return CallMeasure(tool, "m", "success", "policy", None, None, 5, 1, True, True, of_server)


async def test_labels_are_few_whatever_tools_and_models_are_named(
    api: Api, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api("GET", "metrics")
    before = await scrape(server.fetch)
    monkeypatch.setattr(prometheus, "_models", set())
    prometheus._count([measured(name) for name in ("run_python", "mine", "my__own", "github__search", "unknown")])
    prometheus._count([Turn(f"m{n}" + "x" * 10_000, "", 1, 0, 0, 0, 0, None, False) for n in range(99)])
    after = grown(before, await scrape(server.fetch))
    calls = {key: value for key, value in after.items() if key.startswith("agent_kernel_truncated_results_total")}
    assert calls == {
        f"agent_kernel_truncated_results_total{{tool={tool}}}": count
        for tool, count in {"run_python": 1, "own": 2, "mcp": 1, "unknown": 1}.items()
    }
    models = [key for key in after if key.startswith("agent_kernel_tokens_total")]
    assert (len(models), max(map(len, models)) < 200) == (prometheus.MOST_MODELS + 1, True)
    assert after["agent_kernel_tokens_total{kind=input,model=other}"] == 99 - prometheus.MOST_MODELS


def test_stored_cut_off_stopped_and_paid_are_counted_and_times_are_in_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "_models", set())
    before = read_page(generate_latest().decode())
    ran = CallMeasure("run_shell", "m", "success", "user", None, 40_000, 2_500, 900, truncated=True, cached=False)
    stored = CallMeasure("read_file", "m", "success", "rule", None, None, None, None, truncated=False, cached=True)
    prometheus._count([ran, stored])
    prometheus._count([Turn("priced", "", 1_000, 400, 0, 100, 30, Decimal("0.25"), partial=False)])
    prometheus._count([RunMeasure("m", "cancelled", 3, 750)])
    after = grown(before, read_page(generate_latest().decode()))
    waited = "agent_kernel_wait_seconds_bucket{le=%s,tool=run_shell}"
    assert (waited % "30.0" in after, after[waited % "60.0"]) == (False, 1)
    named = {key: value for key, value in after.items() if "_bucket" not in key and "_seconds" not in key}
    assert named == {
        "agent_kernel_calls_total{decided_by=user,status=success,tool=run_shell}": 1,
        "agent_kernel_calls_total{decided_by=rule,status=success,tool=read_file}": 1,
        "agent_kernel_result_bytes_count{tool=run_shell}": 1,
        "agent_kernel_result_bytes_sum{tool=run_shell}": 900,
        "agent_kernel_truncated_results_total{tool=run_shell}": 1,
        "agent_kernel_cache_hits_total{tool=read_file}": 1,
        "agent_kernel_tokens_total{kind=input,model=priced}": 1_000,
        "agent_kernel_tokens_total{kind=cached,model=priced}": 400,
        "agent_kernel_tokens_total{kind=output,model=priced}": 100,
        "agent_kernel_tokens_total{kind=reasoning,model=priced}": 30,
        "agent_kernel_cost_usd_total{model=priced}": 0.25,
        "agent_kernel_runs_total{status=cancelled}": 1,
    }
    assert after["agent_kernel_wait_seconds_sum{tool=run_shell}"] == 40
    assert after["agent_kernel_call_seconds_sum{tool=run_shell}"] == 2.5
    assert after["agent_kernel_first_token_seconds_sum"] == 0.75
