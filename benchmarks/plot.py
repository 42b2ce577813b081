"""Draws the peers beside Agent Kernel, its turns as a conversation grows, and what a person feels by its goals."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Scenarios = Mapping[str, Mapping[str, Any]]
PEERS = ("create_agent", "LangGraph + openai", "pydantic-ai", "openai-agents")
COMPARED = (
    ("tokens", "tokens per second, burst of 5,000", "time of a burst\nof tokens"),
    ("tokens", "CPU per paced token", "CPU of a\npaced token"),
    ("steps", "added time per tool step, log on disk", "added time\nof a tool step"),
    ("approvals", "approve -> tool entered, log on disk", "approve ->\ntool entered"),
    ("approvals", "approve -> tool entered, after 800 messages", "... after\n800 messages"),
)
FELT = (
    ("kernel_steps", "... by JupyterLab's own run of an empty cell", "a tool step"),
    ("click", "click -> the call runs in the kernel, p50", "click -> kernel"),
    ("first_use", "... above the same without the agent", "first use"),
    ("embedded", "%load_ext -> the end of a first embedded run", "first embedded run"),
    ("page_bytes", "what each %%agent sends to the page", "bytes to the page"),
    ("idle_memory", "memory that the extension adds to an idle server", "idle memory"),
    ("saving", "... by a save without a run", "a save"),
    ("cards", "... all painted after JupyterLab itself", "500 cards, all"),
    ("many_runs", "... by the p50 of one run", "100 runs, p99"),
)


def draw(scenarios: Scenarios, path: Path) -> None:
    """Write the SVG, unless matplotlib is missing or too little was measured."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        return
    if not {"tokens", "steps", "approvals", "turns"} <= set(scenarios):
        return
    mpl.rcParams["svg.hashsalt"] = "agent-kernel"
    figure = Figure(figsize=(17, 4.6), layout="constrained")
    bars, felt, lines = figure.subplots(1, 3)
    _draw_peers(bars, scenarios)
    _draw_felt(felt, scenarios)
    _draw_growth(lines, "A turn of a long conversation", "turns so far", scenarios["turns"]["series"])
    figure.savefig(path, metadata={"Date": None})


def _draw_peers(axes: "Axes", scenarios: Scenarios) -> None:
    """Each peer's cost as a multiple of Agent Kernel's."""
    width = 0.8 / len(PEERS)
    for place, peer in enumerate(PEERS):
        times = [_times(scenarios[name]["figures"], what, peer) for name, what, _ in COMPARED]
        found = [(position + place * width, one) for position, one in enumerate(times) if one is not None]
        if found:
            bars = axes.bar([at for at, _ in found], [one for _, one in found], width=width, label=peer)
            axes.bar_label(bars, fmt="%.1f", fontsize=6, padding=1)
    axes.axhline(1, color="0.3", linewidth=1, linestyle="--")
    axes.set(title="Peers: times the cost of Agent Kernel (dashed)", yscale="log")
    axes.set_xticks(
        [position + 0.3 for position in range(len(COMPARED))], [label for *_, label in COMPARED], fontsize=7
    )
    axes.legend(frameon=False, fontsize=8)


def _draw_felt(axes: "Axes", scenarios: Scenarios) -> None:
    """What a person feels, as a multiple of the goal, which is 1."""
    shares: dict[str, float] = {}
    for name, what, label in reversed(FELT):
        if name in scenarios:
            found = next(figure for figure in scenarios[name]["figures"] if figure["what"] == what)
            shares[label] = max(found["value"] / found["goal"]["limit"], 0.01)
    if shares:
        colours = ["C2" if share <= 1 else "C3" for share in shares.values()]
        bars = axes.barh(list(shares), list(shares.values()), color=colours)
        axes.bar_label(bars, fmt="%.2g", fontsize=6, padding=1)
        axes.set_xscale("log")
    axes.axvline(1, color="0.3", linewidth=1, linestyle="--")
    axes.set(title="In JupyterLab: times the goal (dashed; less is better)")
    axes.tick_params(axis="y", labelsize=7)


def _times(figures: Sequence[Mapping[str, Any]], what: str, peer: str) -> float | None:
    found = next(figure for figure in figures if figure["what"] == what)
    theirs: float | None = found["beside"].get(peer)
    ours: float = found["value"]
    if theirs is None:
        return None
    return ours / theirs if found["unit"] == "1/s" else theirs / ours


def _draw_growth(axes: "Axes", title: str, sizes: str, series: Sequence[Mapping[str, Any]]) -> None:
    """Costs by size on logarithmic scales, on which linear ones are parallel to the dashed line."""
    for one in series:
        if len(one["sizes"]) > 1:
            label = one["what"].removeprefix("turn, ").replace("ours", "Agent Kernel")
            width = 2.6 if label == "Agent Kernel" else 1.4
            axes.plot(one["sizes"], one["costs"], marker="o", markersize=4, label=label, linewidth=width)
    axes.set(title=title, xlabel=sizes, ylabel="ms", xscale="log", yscale="log")
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    axes.set_ylim(top=top * 30)  # room for the legend
    axes.plot([left, right], [bottom, bottom * right / left], "--", color="0.7", linewidth=1, label="linear")
    axes.grid(visible=True, color="0.92")
    axes.legend(frameon=False, fontsize=8)
