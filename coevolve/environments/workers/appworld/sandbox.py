"""The sandbox of policy code: what Linux gives without privileges to lock a process in.

`lock` leaves a process its memory, its clock and the two sockets it holds: it can open nothing,
start nothing, signal nobody, reach no network and no file, whatever Python, ctypes or machine code
it runs. A seccomp filter answers every system call that is not in `syscalls.toml` with "permission
denied"; limits on descriptors, files and processes say the same a second time. There is no way
back, and children would inherit it. `supported` tells whether this kernel has it. Standard library
only.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import resource
import struct
import sys
from pathlib import Path
from typing import NamedTuple

from ..data_files import read_data

_PR_SET_DUMPABLE, _PR_GET_SECCOMP, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 4, 21, 22, 38
_FILTER = 2
_LOAD, _EQUAL, _GREATER_EQUAL, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_X32 = 0x40000000
_NUMBER, _ARCHITECTURE = 0, 4
_CPU_SECONDS = 900  # CPU time of one process over all its cells; a cell has a limit of its own


class _Machine(NamedTuple):
    audit: int
    calls: dict[str, int]


_MACHINES: dict[str, _Machine] = read_data(
    Path(__file__).with_name("syscalls.toml"), dict[str, _Machine]
)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


def _prctl(option: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    padded = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in (*arguments, 0, 0, 0, 0)[:4]]
    return libc.prctl(option, *padded)


def supported() -> str | None:
    """Returns None where a process can be locked in, else the reason why not."""
    if sys.platform != "linux":
        return f"policy code can be confined on Linux only, this is {sys.platform}"
    if platform.machine() not in _MACHINES:
        return f"no system call table for {platform.machine()}; there are {', '.join(_MACHINES)}"
    if _prctl(_PR_GET_SECCOMP) < 0:
        return "this kernel has no seccomp filters"
    return None


def limit_memory(megabytes: int) -> None:
    """Lets the address space grow by that much; beyond it an allocation is a MemoryError."""
    with open("/proc/self/statm", "rb") as stream:
        used = int(stream.read().split()[0]) * resource.getpagesize()
    most = used + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def lock() -> None:
    """Locks the calling process in for good. Raises OSError where the kernel refuses."""
    program, _memory = _compile(_MACHINES[platform.machine()])
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, 1))  # poll() takes no more descriptors than this
    _prctl(_PR_SET_DUMPABLE, 0)
    if _prctl(_PR_SET_NO_NEW_PRIVS, 1) or _prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(program)):
        code = ctypes.get_errno()
        name = errno.errorcode.get(code, code)
        raise OSError(code, f"the kernel refuses a seccomp filter: {name}")


def _compile(machine: _Machine) -> tuple[_Program, ctypes.Array]:
    """Returns the filter, and the memory it lies in, which has to be kept while it is passed."""
    allowed = sorted(machine.calls.values())
    count = len(allowed)
    code = [  # BPF: operation, jump if true, jump if false, constant
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, machine.audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_GREATER_EQUAL, count, 0, _X32),
        *((_EQUAL, count - place, 0, number) for place, number in enumerate(allowed)),
        (_RETURN, 0, 0, _ERRNO | errno.EACCES),
        (_RETURN, 0, 0, _ALLOW),
    ]
    packed = b"".join(struct.pack("HBBI", *instruction) for instruction in code)
    memory = ctypes.create_string_buffer(packed, len(packed))
    return _Program(len(code), ctypes.cast(memory, ctypes.c_void_p)), memory
