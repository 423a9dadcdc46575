"""Faults at the calls of the file system, one after the other: errors, or the end of a process.

Python announces these calls to audit hooks, which may raise. A hook cannot be removed, so there is
one, which does nothing unless it is armed.
"""

import errno
import os
import sys
from contextlib import contextmanager

EVENTS = {
    "open",
    "os.link",
    "os.listdir",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.scandir",
    "os.truncate",
    "shutil.rmtree",
    "fcntl.flock",
}
REMOVALS = {"os.remove", "os.rmdir", "shutil.rmtree"}


class Killed(BaseException):
    """Stands for kill -9: nothing handles it, and nothing is done to the disk after it."""


class Faults:
    """Calls within a folder that were seen, the number of the one that fails, and how."""

    def __init__(self, folder, fails=None, kills=False):
        self.folder, self.fails, self.kills = str(folder), fails, kills
        self.seen = []

    def __call__(self, event, args):
        if event == "fcntl.flock":
            place = self.folder if self.seen else ""
        else:
            place = os.fsdecode(args[0]) if args and isinstance(args[0], str | bytes) else ""
        if not place.startswith(self.folder):
            return
        self.seen.append(event)
        number = len(self.seen) - 1
        if self.fails is None or number < self.fails:
            return
        if self.kills:
            raise Killed
        if number == self.fails:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), place)


_armed = []


def _hook(event, args):
    if _armed and event in EVENTS:
        _armed[-1](event, args)


@contextmanager
def faults(folder, fails=None, kills=False):
    """Let the call with number `fails` fail, or kill whoever makes it."""
    if not getattr(sys, "_ebcd_hook", False):
        sys.addaudithook(_hook)
        sys._ebcd_hook = True
    _armed.append(Faults(folder, fails, kills))
    try:
        yield _armed[-1]
    finally:
        _armed.pop()


@contextmanager
def full_disk(room):
    """Let files grow to so many bytes only."""
    import resource

    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, kept[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)
