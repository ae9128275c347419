"""Shut a process in: a scratch folder to write in, so much memory, no network, no other programs.

On Linux the process gets namespaces of its own: its whole file system is read-only but for a small
one in memory, it has no network, and it sees none of the other processes. Where a system does not
allow that, Python's own events are what stops it. They stop whatever is done by mistake, but no
one who sets out to get around them; `confine` says which of the two it is.
"""

import ctypes
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

KEPT = ("PATH", "LANG", "SYSTEMROOT", "LD_LIBRARY_PATH")  # of the environment
FILES, OPEN, PROCESSES = 64 * 2**20, 256, 64  # bytes of a file, open files, processes and threads
SCRATCH = 256 * 2**20  # bytes, where it is in memory
# From linux/sched.h, mount.h and prctl.h; the number of the call is the same on every processor.
NEW_NAMESPACES = 0x10000000 | 0x00020000 | 0x40000000 | 0x20000000 | 0x08000000
MS_NOSUID, MS_NODEV, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x4000, 0x40000
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, READ_ONLY = 442, -100, 0x8000, 0x1
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS, CAPABILITIES = 1, 38, 0x20080522


def confine(scratch: Path) -> str:
    """Shut this process in until it ends, all but its memory, which `limit_memory` does.

    Call it with one thread only, and before torch has run anything.
    Returns: what this system does not give, in words; empty where it gives all.
    """
    lacks = ""
    if sys.platform == "linux":
        try:
            enter_namespaces(scratch)
        except OSError as error:
            lacks = (
                f"this system gives no namespaces of their own ({error}), so the network, "
                "other programs and files outside the scratch folder are kept away by Python alone"
            )
    else:
        lacks = (
            "only Linux has namespaces, so the network, other programs and files outside the "
            "scratch folder are kept away by Python alone"
        )
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    os.environ.clear()
    folders = dict.fromkeys(("HOME", "TMPDIR", "TEMP", "MPLCONFIGDIR"), str(scratch))
    offline = {"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1", "MPLBACKEND": "agg"}
    os.environ.update(kept | folders | offline | {"OMP_NUM_THREADS": "1"})
    sys.dont_write_bytecode = True
    tempfile.tempdir = None  # what it was before, it has kept
    os.chdir(scratch)
    return lacks


def limit_memory(more: int) -> str:
    """Let this process take so many bytes more than it has, and write no large file.

    Returns: what this system does not give, in words.
    """
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limits = {resource.RLIMIT_AS: pages * resource.getpagesize() + more}
        limits |= {resource.RLIMIT_FSIZE: FILES, resource.RLIMIT_NOFILE: OPEN}
        for kind, limit in (limits | {resource.RLIMIT_CORE: 0}).items():
            hard = resource.getrlimit(kind)[1]
            limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(kind, (limit, limit))
    except (ImportError, OSError, ValueError):
        return "this system does not limit the memory of a process"
    return ""


# --- what Linux offers ------------------------------------------------------------------------


class Attributes(ctypes.Structure):
    """linux/mount.h: struct mount_attr."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "user"))


def system(call: str, *arguments: Any) -> int:
    """Call the C library. Errors: OSError."""
    result = getattr(ctypes.CDLL(None, use_errno=True), call)(*arguments)
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result


def set_mount(path: bytes, flags: int, **change: int) -> None:
    attributes = Attributes(**change)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    system("syscall", MOUNT_SETATTR, AT_FDCWD, path, flags, ctypes.byref(attributes), size)


def enter_namespaces(scratch: Path) -> None:
    """Go on in a new process that sees a read-only file system, no network and no other process.

    The old process waits for it, and ends as it does. What is written into `scratch` is in memory,
    and is gone at the end.
    Errors: OSError where the system does not allow it; then nothing has changed but the namespaces.
    """
    user, group, folder = os.getuid(), os.getgid(), os.fsencode(scratch)
    system("unshare", NEW_NAMESPACES)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        Path("/proc/self", name).write_text(text, encoding="ascii")
    system("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    size = f"size={SCRATCH},mode=700".encode()
    system("mount", b"tmpfs", folder, b"tmpfs", MS_NOSUID | MS_NODEV, size)
    set_mount(b"/", AT_RECURSIVE, set=READ_ONLY)
    set_mount(folder, 0, clear=READ_ONLY)
    end_with_parent()
    child = os.fork()  # the first process in the new namespace: with it, all in there end
    if child:
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
            os.kill(os.getpid(), -code)
        os._exit(code)
    end_with_parent()
    give_up_rights()


def end_with_parent() -> None:
    system("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def give_up_rights() -> None:
    """Keep none of the rights that came with the namespaces: so nothing here can be undone."""
    import resource

    system("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    header, nothing = (ctypes.c_uint32 * 2)(CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
    system("capset", ctypes.byref(header), ctypes.byref(nothing))
    resource.setrlimit(resource.RLIMIT_NPROC, (PROCESSES, PROCESSES))


# --- what Python offers everywhere ------------------------------------------------------------

# The events of a change of the file system, and in what they are given: which is a path, and which
# an open folder that it is relative to.
CHANGES: dict[str, tuple[tuple[int, int | None], ...]] = {
    **dict.fromkeys(("os.remove", "os.rmdir"), ((0, 1),)),
    **dict.fromkeys(("os.chmod", "os.mkdir"), ((0, 2),)),
    **dict.fromkeys(("os.chown", "os.utime"), ((0, 3),)),
    **dict.fromkeys(("os.truncate", "os.setxattr", "os.removexattr"), ((0, None),)),
    **dict.fromkeys(("os.rename", "os.link"), ((0, 2), (1, 3))),
    "os.symlink": ((1, 2),),
}
PROGRAMS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork"}
PROGRAMS |= {"os.forkpty", "os.startfile", "os.kill", "os.killpg", "pty.spawn"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def watch(scratch: Path) -> None:
    """From here on this process raises PermissionError where it would leave its folder.

    So a learner reads what was refused, also where the system would have refused it.
    """
    inside = os.path.realpath(scratch)

    def is_inside(path: Any, folder: int = -1) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return True  # an open file, which was asked about when it was opened
        try:
            beside = os.readlink(f"/proc/self/fd/{folder}") if folder != -1 else ""
        except OSError:
            return False  # nobody can tell where it is
        real = os.path.realpath(os.path.join(beside, os.fsdecode(path)))
        return real == os.devnull or real.startswith(inside + os.sep)

    def refuse(what: str) -> None:
        raise PermissionError(f"an answer that is graded may not {what}")

    def event(name: str, given: tuple) -> None:
        if name == "open":
            path, _, flags = given
            if (flags or 0) & WRITES and not is_inside(path):
                refuse(f"write {os.fsdecode(path)}")
        elif name in CHANGES:
            for path, folder in CHANGES[name]:
                is_there = name == "os.mkdir" and given[path] == str(scratch)  # it fails by itself
                opened = -1 if folder is None else given[folder]
                if not is_there and not is_inside(given[path], opened):
                    refuse(f"change {os.fsdecode(given[path])}")
        elif name in PROGRAMS:
            refuse("start or end another program")
        elif name.startswith("socket.") and name != "socket.__new__":
            refuse("use the network")

    add: Callable[[Callable[[str, tuple], None]], None] = sys.addaudithook
    add(event)
