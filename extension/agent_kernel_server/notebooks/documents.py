"""`Documents`: has pages put how runs stand, and their records, into the notebooks that they have open.

So the document itself says it, whoever saves it: a page, or a server that shares the document among pages. Files that
no page has open are `RecordKeeper`'s.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any

from agent_kernel.protocol.pages import NotebooksOpened, OpenNotebook, PutRun
from agent_kernel_server.notebooks.open_pages import OpenPages, Page, PageGone
from agent_kernel_server.notebooks.records import RecordKeeper, marked

PAGE_SECONDS = 5.0
"""How long the answer of a page is waited for."""
PUT_TRIES, AGAIN_SECONDS = 10, 0.5
"""How often a page is asked that does not show an ended run, and how long it has to hear of its cell's output."""
FindPath = Callable[[], Awaitable[str | None]]


class Documents:
    def __init__(self, pages: OpenPages, records: RecordKeeper) -> None:
        self._pages = pages
        self._records = records

    async def put_progress(self, run_id: str, find_path: FindPath, kernel_id: str) -> bool:
        """Put how a run stands that waits for a person, or waits no more. Whether documents were told."""
        run = self._records.find_open(run_id)
        if run is None:
            return False
        await run.refresh()
        if run.bundle is None or run.bundle is run.told or not (run.waits or run.told):
            return False
        run.told = run.bundle if run.waits else None
        shown = display(*marked(run.bundle, run_id))
        put = PutRun(run_id=run_id, outputs=(shown,), elsewhere=shown)
        await self._put(self._pages.showing(await find_path(), kernel_id), put)
        return True

    def are_open(self, path: str | None, kernel_id: str) -> bool:
        """Whether a page will put the record of a run, now or when it is back."""
        return bool(self._pages.showing(path, kernel_id)) or self._pages.may_return(path)

    async def put_end(self, run_id: str, path: str | None, kernel_id: str) -> None:
        """Put a run's record in place of its cards.

        Cards that can be tried again stay: then the record is in the document, and not drawn."""
        put = self._end_of(run_id, path)
        if put is None:
            return
        for _ in range(PUT_TRIES):
            if await self._put(self._pages.showing(path, kernel_id), put):
                return
            await asyncio.sleep(AGAIN_SECONDS)  # a quick run may end before the page has its cell's output

    async def on_opened(self, page: Page, opened: NotebooksOpened) -> None:
        """A page shows runs that may have ended while no page had the notebook open."""
        for notebook in opened.notebooks:
            for run_id in notebook.shows:
                if (put := self._end_of(run_id, notebook.path)) is not None:
                    await self._put([(page, notebook)], put)

    def _end_of(self, run_id: str, path: str | None) -> PutRun | None:
        record = self._records.ended(run_id, path)
        if record is None:
            return None
        if record.keeps_cards:
            kept = display(*marked(record.alone, run_id))
            return PutRun(run_id=run_id, outputs=(kept,), elsewhere=kept)
        results = (result.output for result in record.results)
        return PutRun(run_id=run_id, outputs=(display(record.beside), *results), elsewhere=display(record.elsewhere))

    async def _put(self, pages: Iterable[tuple[Page, OpenNotebook]], put: PutRun) -> bool:
        """Whether each page did it, or will."""
        return all(await asyncio.gather(*(self._ask(page, notebook, put) for page, notebook in pages)))

    async def _ask(self, page: Page, notebook: OpenNotebook, put: PutRun) -> bool:
        """A page that is slow does it later; one that went away says what it shows when it is back."""
        with suppress(PageGone):
            return (await page.ask(notebook, put, PAGE_SECONDS)).success
        return True


def display(data: dict[str, Any], metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"output_type": "display_data", "data": data, "metadata": metadata or {}}
