"""A filter of system calls for what the walls themselves leave open, as a program for the kernel.

Network namespaces do not hold vsock, by which a virtual machine reaches its host. Landlock holds neither sockets in
the file system nor System V's shared memory and queues nor, by its rules on TCP, MPTCP and TCP Fast Open. io_uring
makes sockets past a filter. The kernel's own keyrings belong to the user, wherever a command runs.
"""

import errno
import platform
import struct

_IPC = tuple(range(186, 198))
_NUMBERS = {
    "x86_64": (0xC000003E, 41, 302, 248, (29, 30, 31, *range(64, 72), 220)),
    "aarch64": (0xC00000B7, 198, 261, 217, _IPC),
    "riscv64": (0xC00000F3, 198, 261, 217, _IPC),
}
"""By machine: its audit architecture, and the numbers of `socket`, `prlimit64`, `add_key`, which `request_key` and
`keyctl` follow, and all of System V's shared memory, semaphores and queues."""
_IO_URING_SETUP = 425
_X32 = 0x40000000
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_DATAGRAM, _TYPES, _UDP = 2, 0xF, 17
_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_CALL, _ARCHITECTURE, _ARGUMENTS = 0, 4, (16, 24, 32)
_ALLOWED, _REFUSED = 0x7FFF0000, 0x00050000 | errno.EACCES

_Line = tuple[int, int, str, str] | str
"""An instruction, its operand and where it goes, if it is true and if not (empty: on); or a label."""


def program(*, for_landlock: bool) -> bytes:
    """The filter. What bubblewrap's namespaces hold is refused `for_landlock`: sockets but UDP's, and System V's
    shared memory. Raises `OSError` on an unknown machine."""
    if platform.machine() not in _NUMBERS:
        raise OSError(errno.ENOSYS, f"system calls of {platform.machine()} are not known")
    architecture, socket, prlimit, add_key, ipc = _NUMBERS[platform.machine()]
    first, second, third = _ARGUMENTS
    inet = "datagrams" if for_landlock else "allow"
    return _assembled(
        (_LOAD, _ARCHITECTURE, "", ""),
        (_EQUAL, architecture, "", "refuse"),
        (_LOAD, _CALL, "", ""),
        (_AT_LEAST, _X32, "refuse", ""),
        (_EQUAL, _IO_URING_SETUP, "refuse", ""),
        *((_EQUAL, add_key + more, "refuse", "") for more in range(3)),
        *((_EQUAL, number, "refuse", "") for number in ipc if for_landlock),
        (_EQUAL, socket, "socket", ""),
        (_EQUAL, prlimit, "", "allow"),
        (_LOAD, first, "", ""),  # whose limits: 0 is its own
        (_EQUAL, 0, "allow", "refuse"),
        "socket",
        (_LOAD, first, "", ""),
        (_EQUAL, _NETLINK, "allow", ""),
        (_EQUAL, _UNIX, "refuse" if for_landlock else "allow", ""),
        (_EQUAL, _INET, inet, ""),
        (_EQUAL, _INET6, inet, "refuse"),
        "datagrams",
        (_LOAD, second, "", ""),
        (_AND, _TYPES, "", ""),
        (_EQUAL, _DATAGRAM, "", "refuse"),
        (_LOAD, third, "", ""),
        (_EQUAL, 0, "allow", ""),
        (_EQUAL, _UDP, "allow", "refuse"),
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
