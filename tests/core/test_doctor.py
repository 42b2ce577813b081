"""What `agent-kernel doctor` says of the machine."""

import pytest

from agent_kernel import doctor
from agent_kernel.protocol.calls import WallsFound


@pytest.mark.parametrize(
    ("found", "mark", "text"),
    [
        (WallsFound("bubblewrap"), "ok", "Shell commands run inside walls: bubblewrap."),
        (
            WallsFound("none", "Landlock: ABI 3"),
            "note",
            "Shell commands of the agent run without walls: Landlock: ABI 3.",
        ),
    ],
)
def test_doctor_names_the_walls(found: WallsFound, mark: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "found_walls", lambda: found)
    assert (mark, text) in [(finding.mark, finding.text) for finding in doctor.examine({}, ask=False)]
