"""Join chunks of a log that were read at the same time, each from the first record that was found in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar


class ReadChunk(Protocol):
    """What was read of a chunk: the records from physical offset ``begin`` to before ``end``."""

    @property
    def begin(self) -> int: ...

    @property
    def end(self) -> int: ...


Chunk = TypeVar("Chunk", bound=ReadChunk)


def join_chunks(
    begin: int, end: int, chunks: Iterable[Chunk], read: Callable[[int, int], Iterable[Chunk]]
) -> Iterator[Chunk]:
    """Yield chunks that cover the log from ``begin`` to ``end`` without a gap.

    The body of a message may contain bytes that look like a record, and a chunk may begin at these bytes. So a chunk
    counts only if it begins where the chunk before it ends. Any gap that is left is read again.

    Parameters
    ----------
    chunks : in the order of the log.
    read : reads the records that begin from one physical offset to before another. The last of these records may end
        behind the second offset.
    """
    position = begin
    for chunk in chunks:
        if position < chunk.begin:
            for again in read(position, chunk.begin):
                yield again
                position = again.end
        if chunk.begin == position:
            yield chunk
            position = chunk.end
    if position < end:
        yield from read(position, end)
