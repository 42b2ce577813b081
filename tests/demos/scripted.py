"""A demo's script as a model, registered in the kernel that records its notebook.

The recording is made as a user makes one: the notebook runs, its calls run, and what the model was asked is written
down beside what the script says.
"""

from typing import Any

from agent_kernel.models.recordings.player import RecordedModel
from agent_kernel.notebook.hosts.discovery import host_for
from agent_kernel.notebook.kernel.state import kernel_state
from tests.demos.script import as_recording
from tests.demos.stories import script_of

MODEL = "scripted"


def register(name: str) -> None:
    """In a kernel: the model `scripted` says what the script of this notebook says."""
    model = RecordedModel(as_recording(script_of(name)), name=MODEL)
    host: Any = host_for(kernel_state(), model)
    host._models.register(model)
