"""Draws what grows: a cost per panel, its sizes and costs on logarithmic scales beside the straight line."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

PANELS = (
    ("turns", "A turn of a long conversation"),
    ("growth", "Costs of Agent Kernel as a conversation grows"),
)


def draw(scenarios: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """An SVG. Nothing where matplotlib is not installed or nothing grew."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        return
    panels = [(title, scenarios[name]["series"]) for name, title in PANELS if name in scenarios]
    if not panels:
        return
    mpl.rcParams["svg.hashsalt"] = "agent-kernel"
    figure = Figure(figsize=(6.2 * len(panels), 4.6), layout="constrained")
    for axes, (title, series) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for one in series:
            if len(one["sizes"]) > 1 and max(one["sizes"]) <= 1_000:
                ours = one["what"] in ("turn, ours",)
                label = one["what"].removeprefix("turn, ").replace("ours", "Agent Kernel")
                axes.plot(
                    one["sizes"], one["costs"], marker="o", markersize=4, label=label, linewidth=2.4 if ours else 1.4
                )
        low, high = axes.get_xlim()[1] / 20, axes.get_xlim()[1]
        base = axes.get_ylim()[0] + (axes.get_ylim()[1] - axes.get_ylim()[0]) / 50
        axes.plot([low, high], [base, base * high / low], color="0.7", linestyle="--", linewidth=1, label="linear")
        axes.set(title=title, xlabel="turns so far", ylabel="ms", xscale="log", yscale="log")
        axes.grid(True, which="major", color="0.92")
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Date": None})
