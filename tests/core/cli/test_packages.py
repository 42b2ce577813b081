"""apt-get waits for whoever else installs something, whichever of its locks they have."""

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import packages

pytestmark = pytest.mark.skipif(shutil.which("apt-get") is None, reason="there is no apt-get here")


@pytest.fixture
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An apt-get of the test's own, without sources. Where its lists are."""
    for directory in ("etc", "state/lists/partial", "cache/archives/partial"):
        (tmp_path / directory).mkdir(parents=True)
    config = tmp_path / "apt.conf"
    config.write_text(
        f'Dir::Etc "{tmp_path}/etc"; Dir::State "{tmp_path}/state"; Dir::Cache "{tmp_path}/cache"; '
        'APT::Sandbox::User ""; APT::Update::Post-Invoke-Success ""; #clear APT::Update::Post-Invoke-Success;'
    )
    monkeypatch.setenv("APT_CONFIG", str(config))
    return tmp_path / "state" / "lists"


def test_an_update_waits_until_another_one_has_let_go_of_the_lists(
    lists: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with (lists / "lock").open("w") as other:
        fcntl.lockf(other, fcntl.LOCK_EX)
        clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _: fcntl.lockf(other, fcntl.LOCK_UN))
        monkeypatch.setattr(packages, "time", clock)
        packages.apt_get("update", "-qq")
    assert "Could not get lock" in capfd.readouterr().err


def test_an_update_waits_no_longer_than_it_may_and_says_what_it_waited_for(
    lists: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with (lists / "lock").open("w") as other:
        fcntl.lockf(other, fcntl.LOCK_EX)
        with pytest.raises(subprocess.CalledProcessError):
            packages.apt_get("update", "-qq", waits_seconds=0)
    assert "lists/lock" in capfd.readouterr().err


def test_what_fails_for_another_reason_fails_at_once(lists: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _: sys.exit("waited")))
    with pytest.raises(subprocess.CalledProcessError):
        packages.apt_get("install", "-y", "no-such-package-anywhere")
