"""The sandbox of policy code: what Linux gives without privileges to lock a process in.

`lock` leaves a process its memory, its clock and the two sockets it holds: it can open nothing,
start nothing, signal nobody, reach no network and no file, whatever Python, ctypes or machine code
it runs. A seccomp filter answers every system call that is not on the list below with "permission
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

_PR_SET_DUMPABLE, _PR_GET_SECCOMP, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 4, 21, 22, 38
_FILTER = 2
_LOAD, _EQUAL, _GREATER_EQUAL, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_X32 = 0x40000000
_NUMBER, _ARCHITECTURE = 0, 4
_CPU_SECONDS = 900
"""CPU time of one process over all its cells; a cell has a limit of its own."""

# the calls of an interpreter that computes, allocates, tells the time and talks over its sockets,
# as numbers of each architecture's table in the kernel's sources
_X86 = {
    "read": 0, "write": 1, "close": 3, "fstat": 5, "poll": 7, "lseek": 8, "mmap": 9, "mprotect": 10,
    "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15,
    "sched_yield": 24, "mremap": 25, "madvise": 28, "nanosleep": 35, "getitimer": 36, "alarm": 37,
    "setitimer": 38, "getpid": 39, "sendto": 44, "recvfrom": 45, "exit": 60, "uname": 63,
    "gettimeofday": 96, "getrusage": 98, "times": 100, "getuid": 102, "getgid": 104, "geteuid": 107,
    "getegid": 108, "sigaltstack": 131, "gettid": 186, "time": 201, "futex": 202,
    "restart_syscall": 219, "clock_gettime": 228, "clock_getres": 229, "clock_nanosleep": 230,
    "exit_group": 231, "ppoll": 271, "set_robust_list": 273, "getrandom": 318, "membarrier": 324,
    "rseq": 334,
}  # fmt: skip
_ARM = {
    "close": 57, "lseek": 62, "read": 63, "write": 64, "ppoll": 73, "fstat": 80, "exit": 93,
    "exit_group": 94, "futex": 98, "set_robust_list": 99, "nanosleep": 101, "getitimer": 102,
    "setitimer": 103, "clock_gettime": 113, "clock_getres": 114, "clock_nanosleep": 115,
    "sched_yield": 124, "restart_syscall": 128, "sigaltstack": 132, "rt_sigaction": 134,
    "rt_sigprocmask": 135, "rt_sigreturn": 139, "times": 153, "uname": 160, "getrusage": 165,
    "gettimeofday": 169, "getpid": 172, "getuid": 174, "geteuid": 175, "getgid": 176,
    "getegid": 177, "gettid": 178, "sendto": 206, "recvfrom": 207, "brk": 214, "munmap": 215,
    "mremap": 216, "mmap": 222, "mprotect": 226, "madvise": 233, "getrandom": 278,
    "membarrier": 283, "rseq": 293,
}  # fmt: skip
_MACHINES = {"x86_64": (0xC000003E, _X86), "aarch64": (0xC00000B7, _ARM)}


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


def _prctl(option: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    padded = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in (*arguments, 0, 0, 0, 0)[:4]]
    return libc.prctl(option, *padded)


def supported() -> str | None:
    """None where a process can be locked in, else what is missing."""
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
    architecture, calls = _MACHINES[platform.machine()]
    program, _memory = _compile(architecture, sorted(calls.values()))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, 1))  # poll() takes no more descriptors than this
    _prctl(_PR_SET_DUMPABLE, 0)
    if _prctl(_PR_SET_NO_NEW_PRIVS, 1) or _prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(program)):
        code = ctypes.get_errno()
        name = errno.errorcode.get(code, code)
        raise OSError(code, f"the kernel refuses a seccomp filter: {name}")


def _compile(architecture: int, allowed: list[int]) -> tuple[_Program, ctypes.Array]:
    """Returns the filter, and the memory it lies in, which has to be kept while it is passed."""
    count = len(allowed)
    code = [  # BPF: operation, jump if true, jump if false, constant
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
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
