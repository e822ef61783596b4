"""Bytes of files that the disk cannot read: a mapping of them faults as on a broken disk, and a read gives EIO."""

import ctypes
import errno
import mmap
import os
import tempfile
from pathlib import Path

import numpy as np

from rocketstore.disk import mapped_file
from rocketstore.kernels.mapping import Mapping

PAGE = mmap.PAGESIZE
MAP_FIXED = 0x10  # of Linux and macOS


class BadSectors:
    """Pages that cannot be read: ``pages[path]`` is a set of their numbers. Works through monkeypatch.

    A page of a mapping is exchanged for a page behind the end of an empty file: touching it is a SIGBUS.
    """

    def __init__(self, monkeypatch):
        self.pages = {}
        self.blind = False  # the file's length cannot be looked up
        self._empty = tempfile.TemporaryFile()  # noqa: SIM115
        self._pread = os.pread
        self._mmap = ctypes.CDLL(None, use_errno=True).mmap
        self._mmap.restype = ctypes.c_void_p
        self._mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        monkeypatch.setattr(mapped_file, "Mapping", self._mapping)
        monkeypatch.setattr(os, "pread", self._read)

    def add(self, path, *pages):
        self.pages.setdefault(Path(path), set()).update(pages)

    def _mapping(self, fd, size, path, **options):
        mapping = Mapping(fd, size, path, **options | ({"place": None} if self.blind else {}))
        self.exchange(mapping, self.pages.get(Path(str(path)), ()))
        return mapping

    def exchange(self, mapping, pages):
        """Make pages of a mapping fault."""
        access = mmap.PROT_READ | mmap.PROT_WRITE
        for page in pages:
            place = address_of(mapping) + page * PAGE
            made = self._mmap(place, PAGE, access, mmap.MAP_SHARED | MAP_FIXED, self._empty.fileno(), 0)
            assert made == place, os.strerror(ctypes.get_errno())

    def _read(self, fd, size, position):
        for path, pages in self.pages.items():
            if path.exists() and os.path.samestat(os.fstat(fd), path.stat()):
                for page in sorted(pages):
                    if page * PAGE < position + size and position < (page + 1) * PAGE:
                        if position < page * PAGE:  # as much as there is before it
                            return self._pread(fd, page * PAGE - position, position)
                        raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self._pread(fd, size, position)

    def close(self):
        self._empty.close()


def address_of(mapping):
    return np.frombuffer(mapping, np.uint8).ctypes.data
