"""Find a Chromium for the browser tests; run as a script, install one where there is none."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests import packages

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LAUNCH = ["--no-sandbox", "--disable-gpu", "--headless", "--dump-dom", "about:blank"]


def find_browser() -> str | None:
    """The path of a Chromium: `AGENT_KERNEL_BROWSER`, one on the path, or Playwright's own. `None` if there is none."""
    chosen = os.environ.get("AGENT_KERNEL_BROWSER")
    if chosen:
        return chosen
    on_path = next((path for path in map(shutil.which, NAMES) if path), None)
    return on_path or _playwrights_own()


def _playwrights_own() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


def _install() -> None:
    """Debian's own package where we may install one, since it brings its libraries along; else Playwright's build."""
    if packages.may_install():
        packages.install("chromium", "fonts-dejavu-core")
    else:
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=True)


def main() -> int:
    if find_browser() is None:
        sys.stdout.write("No Chromium or Chrome on this machine: installing one for the browser tests.\n")
        _install()
    browser = find_browser()
    if browser is None:
        sys.stderr.write("No browser. Install chromium, or set AGENT_KERNEL_BROWSER to the path of a Chrome.\n")
        return 1
    started = subprocess.run([browser, *LAUNCH], capture_output=True, text=True, timeout=120, check=False)
    if started.returncode != 0:
        sys.stderr.write(f"{browser} does not start:\n{started.stderr[-2000:]}\n")
        return 1
    sys.stdout.write(f"Browser for the tests: {browser}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
