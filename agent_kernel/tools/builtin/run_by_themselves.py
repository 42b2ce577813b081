"""Files that something runs without being asked to: Python, a kernel, Git, `make`, a recording's player.

The mode `edit` does not write them unasked. What is listed are names and kinds, compared without regard to case and to
Unicode's forms, because some file systems have none. Too long a list costs a question, too short a one runs code.
"""

import json
import os
import sys
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from pathlib import Path, PurePath, PurePosixPath

from agent_kernel.own_imports import INSTALLED, installed_path
from agent_kernel.protocol.calls import Place
from agent_kernel.tools.builtin.changes import FileChange


def _named(why: str, patterns: str) -> dict[str, str]:
    return dict.fromkeys(patterns.split(), why)


_ENVIRONMENT = "It is part of an environment, whose programs run it"
_GIT = "Git runs what it says"
_TOOL = "A tool runs what it says"
_STARTS = "Python runs it whenever it starts"
_KERNEL = "Jupyter runs what it says when it starts"
_DESKTOP = "Windows or a desktop runs it by its name"
_RECORDING = "It is a recording, whose decisions approve calls when it is played"

_ANYWHERE: Mapping[str, str] = {
    **_named(_ENVIRONMENT, "site-packages dist-packages conda-meta __pypackages__"),
    **_named(_ENVIRONMENT, "*.dist-info *.egg-info *.egg-link *.egg"),
    **_named(_STARTS, "sitecustomize sitecustomize.* usercustomize usercustomize.* *.pth *._pth"),
    **_named(_KERNEL, "ipykernel* jupyter_*config* jupyterhub_config* ipython_*config*"),
    **_named("pytest runs it", "conftest conftest.*"),
    "*.git": _GIT,
    "*~[0-9]*": "Windows knows another file by such a name",
}
"""Patterns for a file and for the folders that it is in, and why it is asked about. They are in lower case, here and
below."""
_FOLDERS: Mapping[str, str] = {
    **_named(_ENVIRONMENT, "node_modules renv packrat python[0-9]*"),
    "__pycache__": "Python runs the compiled code in this folder",
    "profile_*": _KERNEL,
}
_FILES: Mapping[str, str] = {
    **_named(_ENVIRONMENT, "pyvenv.cfg pybuilddir.txt activate activate.* activate_this.py"),
    **_named(_ENVIRONMENT, "python python[0-9]* pip pip[0-9]*"),
    **_named(_KERNEL, "nbgrader_config.py kernel.json kernel.js voila.json"),
    **_named(
        _GIT,
        """head commondir gitdir applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit
        prepare-commit-msg commit-msg post-commit pre-rebase post-checkout post-merge pre-push pre-receive update
        proc-receive post-receive post-update reference-transaction push-to-checkout pre-auto-gc post-rewrite
        sendemail-validate fsmonitor-watchman post-index-change""",
    ),
    **_named(
        _TOOL,
        """makefile gnumakefile bsdmakefile *.mk *.mak justfile taskfile taskfile.yml taskfile.yaml rakefile gemfile
        jakefile procfile vagrantfile jenkinsfile dockerfile dockerfile.* containerfile snakefile brewfile guardfile
        podfile fastfile sconstruct sconscript wscript meson.build cmakelists.txt cmakepresets.json build.xml pom.xml
        build.rs build.zig build.sbt *.gradle *.gradle.kts configure noxfile.py tasks.py fabfile.py dodo.py pavement.py
        conf.py setup.py setup.cfg pyproject.toml tox.ini tox.toml pytest.ini pytest.toml mypy.ini pylintrc
        matplotlibrc tasks.json launch.json *.code-workspace *.sublime-project package.json composer.json deno.json
        deno.jsonc bunfig.toml turbo.json nx.json gulpfile.* gruntfile.* *.config.js *.config.cjs *.config.mjs
        *.config.ts *.config.cts *.config.mts mise.toml mise.local.toml devbox.json devenv.nix flake.nix default.nix
        shell.nix lefthook.yml lefthook.yaml lefthook.toml lefthook.json mkdocs.yml mkdocs.yaml _config.yml _quarto.yml
        docker-compose.yml docker-compose.yaml compose.yml compose.yaml dvc.yaml azure-pipelines.yml cloudbuild.yaml
        bitbucket-pipelines.yml appveyor.yml postbuild cargo.toml hatch.toml pixi.toml uv.toml pipfile build.bazel
        latexmkrc startup.m gunicorn.conf.py celeryconfig.py locustfile.py scrapy.cfg dbt_project.yml tiltfile""",
    ),
    **_named(_DESKTOP, "*.com *.exe *.bat *.cmd *.vbs *.vbe *.jse *.wsf *.wsh autorun.inf"),
    **_named(_DESKTOP, "*.desktop *.lnk *.url *.command *.scpt"),
    **_named("It is compiled code", "*.so *.so.* *.pyd *.dll *.dylib *.pyc *.pyo"),
}
_CODE = frozenset({"py", "pyw"})
_JUPYTER = ("agent_kernel", "ipython", "jupyter")
"""How modules begin that kernels and servers import, wherever those are installed."""
_OPTIONAL: Mapping[str, str] = _named(
    "Packages import a module of this name where there is one",
    """_pydevd_bundle_ext appnope argcomplete atomicwrites backports black bottleneck brotli brotlicffi cchardet
    chardet cityhash colorama cupy curio cython cytoolz dask debugpy django docrepr envwrap fastparquet filetype
    fsspec gevent gi gmpy2 html5lib httpx_aiohttp interegular isal jax java jedi jinja2 jnius linkify_it lxml
    lz4 lzmaffi matplotlib mmh3 msgspec numba numexpr numpy odf openpyxl org orjson pandas paramiko pexpect pil
    polars psutil pyarrow pycurl pygments pyqt5 pyqt6 pyreadline pyreadline3 pyside2 pyside6 pysqlite2 pysqlite3
    python_socks pytz pyxlsb regex rfc3987 rich scipy simplejson sip sklearn snappy socks tables tensorflow
    torch tornado tqdm trio ujson uvloop winloop wsaccel wx xarray xlrd xlsxwriter xxhash zmq zstandard""",
)
"""Modules that kernels and usual packages import where they are installed, and do without where they are not."""
_ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta", "bin/activate", "Scripts/activate", "Scripts/activate.bat")
_JSON = json.JSONDecoder(parse_int=float)  # an integer may have any number of digits
_GIT_MARKS = ("objects", "refs", "commondir")


def why_it_runs(place: Place) -> str:
    """Why a file of the notebook's folder is run by itself, by its name; empty if it is not. Looks at what is installed
    for this Python, and not at the folder. It may take some milliseconds."""
    if not place.inside or place.inside == ".":
        return ""
    if not INSTALLED.isdisjoint(PurePath(place.path).parts):
        return _ENVIRONMENT
    *folders, name = (folded(part) for part in PurePosixPath(place.inside).parts)
    for table, parts in ((_ANYWHERE, [*folders, name]), (_FOLDERS, folders), (_FILES, [name])):
        for part in parts:
            if why := next((why for pattern, why in table.items() if fnmatchcase(part, pattern)), ""):
                return why
    try:
        return _why_it_shadows(folders, name, _folder_of(place))
    except ValueError:  # a kernel has told it, and may tell anything
        return "It has no place that could be looked at"


def why_it_runs_there(place: Place) -> str:
    """As `why_it_runs`, by what is in the folder, too."""
    if not place.inside or place.inside == ".":
        return ""
    folder = _folder_of(place)
    for parent in (folder / parent for parent in PurePosixPath(place.inside).parents):
        if any((parent / mark).exists() for mark in _ENVIRONMENT_MARKS) or _has_this_python(parent):
            return _ENVIRONMENT
        if (parent / "HEAD").exists() and any((parent / mark).exists() for mark in _GIT_MARKS):
            return _GIT
    return why_it_runs(place)


def why_change_decides(change: FileChange) -> str:
    """`why_it_decides` of the file as it is or becomes."""
    return why_it_decides(change.after.text) or (why_it_decides(change.before.text) if change.before else "")


def why_it_decides(text: str) -> str:
    """Why a file of this content takes effect by itself: `replay:` takes a recording of any name. Empty if it is none.
    What is called one here is all that `agent_kernel.models.recordings` plays, and more."""
    start = text.lstrip()
    try:
        found, _ = _JSON.raw_decode(start) if start.startswith("{") else (None, 0)
    except ValueError:
        return ""
    except RecursionError:
        return _RECORDING  # it is too deep to be told
    return _RECORDING if isinstance(found, dict) and found.get("kind") == "recording" else ""


def _folder_of(place: Place) -> Path:
    """The notebook's folder. Raises `ValueError` where the two paths do not fit."""
    parts, inside = Path(place.path).parts, PurePosixPath(place.inside or "").parts
    if inside != parts[len(parts) - len(inside) :]:
        raise ValueError(place)
    return Path(*parts[: len(parts) - len(inside)])


def folded(part: str) -> str:
    """A name as the most tolerant file system reads it: without case, Unicode's forms, and what Windows ignores."""
    return unicodedata.normalize("NFKC", part).casefold().partition(":")[0].rstrip(". ")


def _has_this_python(folder: Path) -> bool:
    """Whether this Python itself is installed there."""
    return os.path.realpath(folder) in map(os.path.realpath, (sys.prefix, sys.base_prefix))


def _why_it_shadows(folders: list[str], name: str, folder: Path) -> str:
    """A module shadows an installed one of the same name from any folder: each one is first on `sys.path` for the
    scripts and tests in it."""
    stem, _, ending = name.partition(".")
    if ending.rpartition(".")[2] not in _CODE:
        return ""
    module = folders[-1] if stem == "__init__" and folders else stem
    packages = _installed(folder)
    if module in packages or module.startswith(_JUPYTER) or _is_found_otherwise(module, folder):
        return f"It takes the place of the installed module {module}"
    if module in _OPTIONAL:
        return _OPTIONAL[module]
    joined = next((part for part in folders if part in packages and not packages[part]), None)
    return f"It becomes part of the installed package {joined}" if joined is not None else ""


def _installed(folder: Path) -> dict[str, bool]:
    """The names of the standard library's modules and of all on `sys.path` outside of the folder, and whether each is
    more than a folder that several packages share."""
    names = {folded(name): True for name in (*sys.stdlib_module_names, *sys.builtin_module_names)}
    for name, whole in _listed(folder):
        names[name] = names.get(name, False) or whole
    return names


def _listed(folder: Path) -> Iterator[tuple[str, bool]]:
    for entry in installed_path(folder):
        with suppress(OSError), os.scandir(entry) as found:
            for one in found:
                name, _, ending = folded(one.name).partition(".")
                if ending:
                    if ending.rpartition(".")[2] in (*_CODE, "so", "pyd", "pyc"):
                        yield name, True
                elif one.is_dir():
                    yield name, Path(one.path, "__init__.py").exists()


def _is_found_otherwise(module: str, folder: Path) -> bool:
    """Whether another finder than Python's own knows a module, as for a development install."""
    for finder in sys.meta_path:
        if finder in (BuiltinImporter, FrozenImporter, PathFinder):
            continue
        with suppress(Exception):  # a finder of somebody's
            spec = finder.find_spec(module, None)
            if spec is not None and spec.origin is not None and not Path(spec.origin).is_relative_to(folder):
                return True
    return False
