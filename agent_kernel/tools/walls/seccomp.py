"""A filter of system calls for what the walls themselves leave open, as a program for the kernel.

Network namespaces do not hold vsock, by which a virtual machine reaches its host. Landlock holds neither sockets in
the file system nor System V's shared memory and queues nor, by its rules on TCP, MPTCP and TCP Fast Open, nor what a
file is beside its content: modes, owners, times, attributes, flags. io_uring makes sockets past a filter. The kernel's
own keyrings belong to the user, wherever a command runs.
"""

import errno
import platform
import struct
from dataclasses import dataclass, replace

from agent_kernel.protocol.vocabulary import WallKind

_IPC = tuple(range(186, 198))
_NEW_ATTRIBUTES = (463, 466, 469)
_NEW_MODE = 452


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The numbers of system calls on a machine, and what it is named there."""

    architecture: int
    socket: int
    prlimit: int
    """`prlimit64`."""
    add_key: int
    """`request_key` and `keyctl` follow it."""
    ioctl: int
    ipc: tuple[int, ...]
    """All of System V's shared memory, semaphores and queues."""
    attributes: tuple[int, ...]
    """What sets and removes extended attributes of files: `setxattr` and its kin."""
    metadata: tuple[int, ...]
    """What changes modes, owners and times of files: `chmod`, `chown`, `utime` and their kin."""


_ARM = _Numbers(
    architecture=0xC00000B7,
    socket=198,
    prlimit=261,
    add_key=217,
    ioctl=29,
    ipc=_IPC,
    attributes=(5, 6, 7, 14, 15, 16, *_NEW_ATTRIBUTES),
    metadata=(52, 53, 54, 55, 88, _NEW_MODE),
)
_MACHINES = {
    "x86_64": _Numbers(
        architecture=0xC000003E,
        socket=41,
        prlimit=302,
        add_key=248,
        ioctl=16,
        ipc=(29, 30, 31, *range(64, 72), 220),
        attributes=(188, 189, 190, 197, 198, 199, *_NEW_ATTRIBUTES),
        metadata=(*range(90, 95), 132, 235, 260, 261, 268, 280, _NEW_MODE),
    ),
    "aarch64": _ARM,
    "riscv64": replace(_ARM, architecture=0xC00000F3),
}
_SET_FLAGS = (0x40086602, 0x401C5820)
"""`FS_IOC_SETFLAGS` and `FS_IOC_FSSETXATTR`: an open file's flags, whatever it was opened for."""
_IO_URING_SETUP = 425
_X32 = 0x40000000
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_DATAGRAM, _TYPES, _UDP = 2, 0xF, 17
_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_CALL, _ARCHITECTURE, _ARGUMENTS = 0, 4, (16, 24, 32)
_ALLOWED = 0x7FFF0000
_REFUSED, _READ_ONLY, _UNSUPPORTED = (0x00050000 | one for one in (errno.EACCES, errno.EROFS, errno.EOPNOTSUPP))
"""As bubblewrap's read-only file system answers; and as file systems without attributes do, so that `cp -a`, `tar` and
`sed -i` go on without them."""

_Line = tuple[int, int, str, str] | str
"""An instruction, its operand and where it goes, if it is true and if not (empty: on); or a label."""


def program(kind: WallKind, *, writable: bool) -> bytes:
    """The filter. What bubblewrap's namespaces hold is refused for Landlock: sockets but UDP's, System V's shared
    memory, attributes of files, and modes, owners and times of files where nothing is `writable`: a filter can't tell
    files apart. Raises `OSError` on an unknown machine."""
    if platform.machine() not in _MACHINES:
        raise OSError(errno.ENOSYS, f"system calls of {platform.machine()} are not known")
    numbers = _MACHINES[platform.machine()]
    first, second, third = _ARGUMENTS
    alone = kind == "Landlock"
    inet = "datagrams" if alone else "allow"
    return _assembled(
        (_LOAD, _ARCHITECTURE, "", ""),
        (_EQUAL, numbers.architecture, "", "refuse"),
        (_LOAD, _CALL, "", ""),
        (_AT_LEAST, _X32, "refuse", ""),
        (_EQUAL, _IO_URING_SETUP, "refuse", ""),
        *((_EQUAL, numbers.add_key + more, "refuse", "") for more in range(3)),
        *((_EQUAL, number, "refuse", "") for number in numbers.ipc if alone),
        *((_EQUAL, number, "unsupported", "") for number in numbers.attributes if alone),
        *((_EQUAL, number, "read-only", "") for number in numbers.metadata if alone and not writable),
        (_EQUAL, numbers.ioctl, "ioctl" if alone else "allow", ""),
        (_EQUAL, numbers.socket, "socket", ""),
        (_EQUAL, numbers.prlimit, "", "allow"),
        (_LOAD, first, "", ""),  # whose limits: 0 is its own
        (_EQUAL, 0, "allow", "refuse"),
        "ioctl",
        (_LOAD, second, "", ""),
        *((_EQUAL, request, "unsupported", "") for request in _SET_FLAGS[:-1]),
        (_EQUAL, _SET_FLAGS[-1], "unsupported", "allow"),
        "socket",
        (_LOAD, first, "", ""),
        (_EQUAL, _NETLINK, "allow", ""),
        (_EQUAL, _UNIX, "refuse" if alone else "allow", ""),
        (_EQUAL, _INET, inet, ""),
        (_EQUAL, _INET6, inet, "refuse"),
        "datagrams",
        (_LOAD, second, "", ""),
        (_AND, _TYPES, "", ""),
        (_EQUAL, _DATAGRAM, "", "refuse"),
        (_LOAD, third, "", ""),
        (_EQUAL, 0, "allow", ""),
        (_EQUAL, _UDP, "allow", "refuse"),
        "unsupported",
        (_RETURN, _UNSUPPORTED, "", ""),
        "read-only",
        (_RETURN, _READ_ONLY, "", ""),
        "refuse",
        (_RETURN, _REFUSED, "", ""),
        "allow",
        (_RETURN, _ALLOWED, "", ""),
    )


def _assembled(*lines: _Line) -> bytes:
    places: dict[str, int] = {}
    instructions: list[tuple[int, int, str, str]] = []
    for line in lines:
        if isinstance(line, str):
            places[line] = len(instructions)
        else:
            instructions.append(line)
    return b"".join(
        struct.pack("=HBBI", code, *(places[to] - at - 1 if to else 0 for to in (yes, no)), operand)
        for at, (code, operand, yes, no) in enumerate(instructions)
    )
