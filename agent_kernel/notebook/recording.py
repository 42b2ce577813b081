"""The options of a prompt that record and replay."""

from agent_kernel.errors import ConfigurationError
from agent_kernel.protocol.vocabulary import OnChange


def recorded_model(model: str | None, record: str | None, on_change: OnChange | None) -> str | None:
    """The name of the model that `--model`, `--record` and `--on-change` mean together. Raises `ConfigurationError`."""
    replays = model is not None and model.startswith("replay:")
    if record is not None and (replays or on_change is not None or (model or "").startswith("record:")):
        raise ConfigurationError(
            "--record records what a model answers, and --model replay: plays a recording: leave out one of them."
        )
    if record is not None:
        return f"record:{record}" if model is None else f"record:{record} --model {model}"
    if on_change is None:
        return model
    if not replays:
        raise ConfigurationError("--on-change goes with a recording: --model replay:FILE.jsonl --on-change warn.")
    return f"{model} --on-change {on_change}"
