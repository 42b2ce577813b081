"""Pictures of every state of a run, for looking at: `python widgets/tests/gallery/screenshots.py FOLDER`.

Needs the built bundle and Playwright's Chromium (or CHROMIUM set to a browser's path).
"""

import functools
import http.server
import os
import sys
import threading
from pathlib import Path

from playwright.sync_api import sync_playwright

WIDGETS = Path(__file__).parents[2]
SETTLED_MS = 2_000
ALONE = ("offline", "offline-long", "edit")


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    handler = functools.partial(QuietHandler, directory=str(WIDGETS))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page_url = f"http://127.0.0.1:{server.server_address[1]}/tests/gallery/gallery.html"
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM"), args=["--no-sandbox", "--disable-gpu"]
        )
        for theme in ("light", "dark"):
            for width in (820, 420):
                for scene in ("", *ALONE):
                    page = browser.new_page(viewport={"width": width + 40, "height": 900})
                    page.goto(f"{page_url}?theme={theme}&width={width}&scene={scene}")
                    page.wait_for_timeout(SETTLED_MS)
                    page.screenshot(path=folder / f"{theme}-{width}-{scene or 'all'}.png", full_page=True)
                    page.close()
        browser.close()
        server.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
