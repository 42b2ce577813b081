"""`OpenPages`: the pages of JupyterLab that are connected, the notebooks that each has open, and requests to them."""

import asyncio
from collections.abc import Callable
from itertools import count

from agent_kernel.errors import AgentKernelError
from agent_kernel.protocol.pages import (
    AnyPageRequest,
    NotebooksOpened,
    OpenNotebook,
    PageAnswer,
    PageRequest,
    PutRun,
    RunsBegan,
)


class PageGone(AgentKernelError):
    """The page went away before it answered: it may have done what it was asked."""


class Page:
    """One connected page."""

    def __init__(self, send: Callable[[str], object]) -> None:
        """`send` sends a frame, and drops it where the page is gone."""
        self._send = send
        self._numbers = count(1)
        self._asked: dict[str, asyncio.Future[PageAnswer]] = {}
        self.notebooks: tuple[OpenNotebook, ...] = ()

    async def ask(self, notebook: OpenNotebook, request: AnyPageRequest | PutRun, seconds: float | None) -> PageAnswer:
        """Raises `PageGone`, also where it does not answer in time."""
        number = str(next(self._numbers))
        self._asked[number] = asyncio.get_running_loop().create_future()
        self._send(PageRequest(request_id=number, path=notebook.path, ask=request).model_dump_json())
        try:
            async with asyncio.timeout(seconds):
                return await self._asked[number]
        except TimeoutError:
            raise PageGone("The page did not answer in time.") from None
        finally:
            del self._asked[number]

    def tell(self, message: RunsBegan) -> None:
        self._send(message.model_dump_json())

    def on_message(self, message: NotebooksOpened | PageAnswer) -> None:
        if isinstance(message, NotebooksOpened):
            self.notebooks = message.notebooks
            return
        asked = self._asked.get(message.request_id)
        if asked is not None and not asked.done():
            asked.set_result(message)

    def gone(self) -> None:
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(PageGone("The page went away before it answered."))


class OpenPages:
    def __init__(self) -> None:
        self._pages: list[Page] = []
        """The one that was looked at last is last."""
        self._left: dict[str, float] = {}
        """When a page went away that had the notebook open, by its path, in seconds of the event loop's clock."""
        self._lost: set[str] = set()
        """The paths of notebooks that pages had open when their connection was lost."""
        self._changed = asyncio.Condition()

    def close(self, page: Page, *, lost: bool) -> None:
        """`lost`: the connection ended without a word of the page, which may be there still."""
        if page in self._pages:
            self._pages.remove(page)
            now = asyncio.get_running_loop().time()
            self._left |= {notebook.path: now for notebook in page.notebooks}
            if lost:
                self._lost |= {notebook.path for notebook in page.notebooks}
        page.gone()

    async def on_message(self, page: Page, message: NotebooksOpened | PageAnswer) -> None:
        page.on_message(message)
        if isinstance(message, NotebooksOpened):
            self._pages = [*(one for one in self._pages if one is not page), page]
            self._lost -= {notebook.path for notebook in message.notebooks}
            async with self._changed:
                self._changed.notify_all()

    def tell(self, message: RunsBegan) -> None:
        """Tell all pages."""
        for page in self._pages:
            page.tell(message)

    def find(self, path: str | None, kernel_id: str) -> tuple[Page, OpenNotebook] | None:
        """The page that has a notebook open, by its path, or else by its kernel: a path may just have been changed."""
        opened = [(page, notebook) for page in reversed(self._pages) for notebook in page.notebooks]
        by_path = [one for one in opened if one[1].path == path]
        by_kernel = [one for one in opened if one[1].kernel_id == kernel_id]
        return next(iter([*by_path, *by_kernel]), None)

    async def find_soon(self, path: str | None, kernel_id: str, seconds: float) -> tuple[Page, OpenNotebook] | None:
        """As `find`; waits for a page that had the notebook open until `seconds` ago: it may be loading again."""
        found = self.find(path, kernel_id)
        if found is not None or path not in self._left:
            return found
        rest = self._left[path] + seconds - asyncio.get_running_loop().time()
        found = await self.wait_for(path, kernel_id, rest) if rest > 0 else None
        self._left.pop(path, None)
        return found

    def may_return(self, path: str | None) -> bool:
        """Whether a page that had the notebook open was lost, as with a computer that sleeps: it comes back with its
        own document."""
        return path in self._lost

    def showing(self, path: str | None, kernel_id: str) -> list[tuple[Page, OpenNotebook]]:
        """The pages that have a notebook open, by its path or its kernel. Of those that share its document it is the
        one that was looked at last."""
        found: list[tuple[Page, OpenNotebook]] = []
        shared: set[str] = set()
        for page in reversed(self._pages):
            for notebook in page.notebooks:
                if notebook.path in shared or not (notebook.path == path or notebook.kernel_id == kernel_id):
                    continue
                found.append((page, notebook))
                if notebook.shared:
                    shared.add(notebook.path)
        return found

    async def wait_for(self, path: str | None, kernel_id: str, seconds: float) -> tuple[Page, OpenNotebook] | None:
        """As `find`, for a page that may be loading."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: self.find(path, kernel_id) is not None)
        except TimeoutError:
            return None
        return self.find(path, kernel_id)
