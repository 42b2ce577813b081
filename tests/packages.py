"""Debian packages that tests need, installed where we may: as root, with apt-get, waiting for whoever uses it."""

import os
import shutil
import subprocess
import sys
import time

WAITS_SECONDS = 600
_PAUSE_SECONDS = 2
_LOCKED = "Could not get lock"


def may_install() -> bool:
    return shutil.which("apt-get") is not None and os.geteuid() == 0


def install(*packages: str) -> None:
    """Raises `subprocess.CalledProcessError` where apt-get can't do it."""
    apt_get("update", "-qq")
    apt_get("install", "-y", "-qq", "--no-install-recommends", *packages)


def apt_get(*arguments: str, waits_seconds: float = WAITS_SECONDS) -> None:
    """`DPkg::Lock::Timeout` is for dpkg's own lock. For those on the lists and on the downloaded packages apt-get does
    not wait at all, so it is started again while another one has them."""
    deadline = time.monotonic() + waits_seconds
    # apt-get's messages are told by their English words.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    command = ["apt-get", "-o", f"DPkg::Lock::Timeout={waits_seconds:.0f}", *arguments]
    while True:
        done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)
        sys.stderr.write(done.stderr)
        sys.stderr.flush()
        if done.returncode == 0 or _LOCKED not in done.stderr or time.monotonic() > deadline:
            done.check_returncode()
            return
        time.sleep(_PAUSE_SECONDS)
