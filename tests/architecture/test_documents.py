"""The documents lead where they say, and the page on the protocol has all of it."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.protocol.schema import protocol_schema

ROOT = Path(__file__).parents[2]
PROTOCOL_PAGE = ROOT / "docs" / "protocol.md"
LINK = re.compile(r"\]\((?P<target>[^()\s]+)\)|srcset=\"(?P<set>[^\"]+)\"|src=\"(?P<source>[^\"]+)\"")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
BUILT = ("benchmarks/results/", "widgets/lab/labextension/", "widgets/node_modules")
PACKAGES = {
    "agent_kernel": ROOT / "agent_kernel",
    "agent_kernel_server": ROOT / "extension" / "agent_kernel_server",
    "agent_kernel_widgets": ROOT / "widgets" / "agent_kernel_widgets",
}


def tracked_files(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def pages() -> list[Path]:
    return tracked_files("*.md")


def prose(page: Path) -> str:
    return CODE.sub("", FENCED.sub("", page.read_text(encoding="utf-8")))


def links(page: Path) -> list[str]:
    found = [next(filter(None, match.groups())) for match in LINK.finditer(prose(page))]
    return [target for target in found if not re.match("[a-z]+:", target)]


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ +(.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_each_link_between_documents_leads_somewhere() -> None:
    broken = []
    for page in pages():
        for link in links(page):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert broken == []


def named(pattern: str) -> list[tuple[Path, str]]:
    """What stands in documents, each with its page."""
    return [(page, name) for page in pages() for name in re.findall(pattern, page.read_text(encoding="utf-8"))]


def test_each_file_folder_and_room_that_a_document_names_exists() -> None:
    """A room is named below a package, such as `runtime/turns` or `protocol/vocabulary.CallState`."""
    tops = "agent_kernel|benchmarks|docs|extension|notebooks|tests|widgets"
    files = named(rf"`((?:{tops})/[\w./*-]*)`")
    broken = [(page, name) for page, name in files if not list(ROOT.glob(name.rstrip("/")))]
    tracked = [path.relative_to(ROOT).with_suffix("") for path in tracked_files()]
    places = {f"/{place.as_posix()}" for path in tracked for place in (path, *path.parents)}
    rooms = named(r"`([a-z_]+(?:/[a-z_]+)+)/?(?:\.[A-Z]\w*)?`")
    broken += [(page, name) for page, name in rooms if not any(place.endswith(f"/{name}") for place in places)]
    assert [f"{page.relative_to(ROOT)}: {name}" for page, name in broken if not name.startswith(BUILT)] == []


def test_each_module_that_a_document_or_a_docstring_names_exists() -> None:
    dotted = re.compile(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)")
    sources = [path for package in PACKAGES.values() for path in sorted(package.rglob("*.py"))]
    broken = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in (*pages(), *sources)
        for name in dotted.findall(path.read_text(encoding="utf-8"))
        if not is_there(name)
    ]
    assert broken == []


def is_there(name: str) -> bool:
    """Whether a dotted name is that of a module, or of something that stands in one."""
    package, *parts = name.split(".")
    place = PACKAGES[package]
    while parts and (place / parts[0]).is_dir():
        place /= parts.pop(0)
    if parts and place.joinpath(f"{parts[0]}.py").is_file():
        place /= f"{parts.pop(0)}.py"
    module = place if place.is_file() else place / "__init__.py"
    return not parts or re.search(rf"\b{parts[0]}\b", module.read_text(encoding="utf-8")) is not None


def test_the_protocol_page_names_every_event_and_command_with_its_fields() -> None:
    """A field is named anywhere on the page; the envelope and the tag are explained once."""
    page = PROTOCOL_PAGE.read_text(encoding="utf-8")
    names = _names("event") | _names("command")
    assert [name for name in names if not re.search(rf"[`\"]{re.escape(name)}\??[`\"]", page)] == []


def _names(side: str) -> set[str]:
    schema = protocol_schema()
    definitions: dict[str, Any] = schema["$defs"]
    messages = schema["properties"][side]["discriminator"]["mapping"]
    fields = {field for ref in messages.values() for field in definitions[ref.rpartition("/")[2]]["properties"]}
    return {*messages, *fields} - {"type"}


def test_the_protocol_page_names_every_route_of_the_server() -> None:
    from agent_kernel_server.handlers import HANDLERS  # it loads Jupyter's server

    page = PROTOCOL_PAGE.read_text(encoding="utf-8")
    paths = [path.replace("([^/]+)", "{}") for path, *_ in HANDLERS if path.startswith("agent-kernel/api/")]
    ours = [path.removeprefix("agent-kernel/api/") for path in paths if not path.endswith("(.*)")]
    routes = {
        re.sub(r"\{[a-z_]+\}", "{}", route) for route in re.findall(r"[a-z-]+(?:/(?:\{[a-z_]+\}|[a-z-]+))*", page)
    }
    choices = [re.split(r"[(|)]", path.removesuffix(")")) for path in ours]
    named = [f"{base}{one}" for base, *several in choices for one in several or [""]]
    assert [path for path in named if path not in routes] == []
