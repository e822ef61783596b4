"""Closable: the base of the classes that hold files open."""

from __future__ import annotations

import functools
from typing import Any, Self


class Closable:
    """Holds files open until ``close`` is called, or until the end of a ``with`` block.

    A subclass whose readers can be pickled has a class method ``open``, and a ``__reduce__`` that calls
    ``_reduce_reader``. Pickle then opens the files again in the process that gets the reader.
    """

    __slots__ = ()

    def close(self) -> None:
        """Close the files."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _reduce_reader(self, path: object, *, is_writer: bool, **options: Any) -> tuple[object, ...]:
        """Return what ``__reduce__`` must return so that pickle calls ``open(path, **options)``.

        Raises: TypeError for a writer: two writers would hold the same files.
        """
        if is_writer:
            raise TypeError(f"{path} is open for writing: only a reader can be pickled")
        cls: Any = type(self)
        return functools.partial(cls.open, **options), (path,)
