"""Runs a command inside Landlock: `python -I -S -B landlock_launcher.py ROOM COMMAND...`. The standard library alone.

This process is in a domain of its own, and the command in one inside that: so the command can't signal this process,
and one `kill(-1)` of this process ends all that the command has started, and nothing else. ROOM is JSON: `folder`,
`scratch` (where a private temporary folder is made and the folder may be written; null: nothing may), `hidden`, `kept`,
and `filter`, a program of `seccomp` in hexadecimal digits.
"""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import stat
import sys
import tempfile
from typing import Any

LEAST_ABI = 6
"""The first that keeps abstract sockets and signals inside: Linux 6.12."""
FAILED = 125

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 22, 24, 36, 38
_SECCOMP_MODE_FILTER = 2
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL_DEV = (1 << bit for bit in (0, 1, 2, 3, 14, 15))
_MAKE_DEVICES = 1 << 6 | 1 << 11
_ALL = (1 << 16) - 1
_TCP, _SCOPES, _SCOPE_SIGNALS = 3, 3, 2
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_CHANGE = _ALL & ~_MAKE_DEVICES & ~_IOCTL_DEV
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_DEVICES = ("null", "zero", "full", "random", "urandom")

_libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Rule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("access", ctypes.c_uint64), ("parent", ctypes.c_int32))


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("program", ctypes.c_char_p))


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _syscall(number: int, *arguments: Any) -> int:
    return _checked(_libc.syscall(ctypes.c_long(number), *arguments))


def _prctl(option: int, value: int) -> None:
    _checked(_libc.prctl(option, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3))


def _domain(**fields: int) -> int:
    ruleset = _Ruleset(**fields)
    return _syscall(_CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(ctypes.sizeof(ruleset)), ctypes.c_uint32(0))


def _enter(ruleset: int) -> None:
    _syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # nor can the command open it
    try:
        is_folder = stat.S_ISDIR(os.fstat(opened).st_mode)
        rule = _Rule(rights if is_folder else rights & _ON_FILES, opened)
        _syscall(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), ctypes.byref(rule), ctypes.c_uint32(0))
    finally:
        os.close(opened)


def _allow_all_but(ruleset: int, path: str, hidden: frozenset[str], passages: dict[str, bool], rights: int) -> None:
    """Allow a folder, or, where something in it is hidden, all else in it: Landlock can allow, and not take away.

    `passages`: the folders that something hidden is in, and whether a folder is: then they can't be listed either."""
    if path in hidden:
        return
    if path not in passages:
        _allow(ruleset, path, rights)
        return
    if not passages[path]:
        _allow(ruleset, path, rights & _READ_DIR)  # which opens no hidden file
    try:
        with os.scandir(path) as entries:
            inside = [entry.path for entry in entries if not entry.is_symlink()]
    except OSError:
        return
    for entry in inside:
        _allow_all_but(ruleset, entry, hidden, passages, rights)


def _passages(paths: frozenset[str]) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for path in paths:
        is_folder = os.path.isdir(path)  # noqa: PTH112 -- pathlib takes longer to load than all else here
        while path != "/":
            path = path.rpartition("/")[0] or "/"
            found[path] = found.get(path, False) or is_folder
    return found


def _walls(room: dict[str, Any], scratch: str | None) -> int:
    ruleset = _domain(fs=_ALL, net=_TCP, scoped=_SCOPES)
    # A process's own folder in /proc is hidden with all the others: it is not known before.
    with os.scandir("/proc") as entries:
        others = {entry.path for entry in entries if entry.name.isdigit()}
    hidden = frozenset({*room["hidden"], *others, "/dev"})
    passages = _passages(hidden)
    _allow_all_but(ruleset, "/", hidden, passages, _READ)
    for path in (*room["kept"], room["folder"]):
        _allow_all_but(ruleset, path, hidden - {path}, passages, _READ)
    for name in _DEVICES:
        _allow(ruleset, f"/dev/{name}", _READ_FILE | _WRITE_FILE | _IOCTL_DEV)
    if scratch is not None:
        _allow(ruleset, scratch, _CHANGE)
        _allow_all_but(ruleset, room["folder"], hidden, passages, _CHANGE)
    return ruleset


def _give_up_rights() -> None:
    """Capabilities would open what Landlock leaves to them, such as the environment of other processes."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    for capability in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), *[ctypes.c_ulong(0)] * 3) < 0:
            break  # beyond the last; or not root, who keeps none
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    _checked(_libc.capset(header, (ctypes.c_uint32 * 6)()))


def _end_all(*_: Any) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)


def _start(room: dict[str, Any], scratch: str | None, command: list[str]) -> None:
    """In the child: enter the walls and become the command."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()
    os.chdir(room["folder"])
    if scratch is not None:
        os.environ["TMPDIR"] = scratch
    _enter(_walls(room, scratch))
    program = bytes.fromhex(room["filter"])
    found = _Filter(len(program) // 8, program)
    _checked(_libc.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_MODE_FILTER), ctypes.byref(found)))
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execvp(command[0], command)


def _follow(main: int) -> int:
    """Wait until the command ends, then end what it has left. Returns its status."""
    status = 0
    while True:
        try:
            ended, found = os.wait()
        except ChildProcessError:
            return status
        if ended == main:
            status = found
            _end_all()


def main() -> int:
    room, command = json.loads(sys.argv[1]), sys.argv[2:]
    abi = _libc.syscall(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if abi < LEAST_ABI:
        has = f"has Landlock ABI {abi}, not {LEAST_ABI}" if abi > 0 else "has no Landlock"
        sys.stderr.write(f"this kernel {has}\n")
        return FAILED
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    _prctl(_PR_SET_SUBREAPER, 1)
    _give_up_rights()
    _enter(_domain(scoped=_SCOPE_SIGNALS))
    scratch = tempfile.mkdtemp(prefix="agent-kernel-shell-", dir=room["scratch"]) if room["scratch"] else None
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.signal(signal.SIGTERM, _end_all)
    try:
        child = os.fork()
        if child == 0:
            try:
                _start(room, scratch, command)
            except OSError as error:
                sys.stderr.write(f"the walls could not be put up: {error}\n")
            os._exit(FAILED)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        status = _follow(child)
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


if __name__ == "__main__":
    sys.exit(main())
