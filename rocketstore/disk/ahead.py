"""Read-ahead: threads work on the next chunks while the caller uses the results, in the order of the chunks."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from rocketstore.disk.work_threads import Task, WorkThreads, work_threads

Chunk = TypeVar("Chunk", bound=tuple[object, ...])
Result = TypeVar("Result")
Item = TypeVar("Item")


@contextlib.contextmanager
def read_ahead(
    threads: WorkThreads, most: int, work: Callable[..., Result], chunks: Iterable[Chunk]
) -> Iterator[Iterator[tuple[Chunk, Task[Result]]]]:
    """Run ``work(*chunk)`` in threads for each chunk. Yield an iterator of chunks and their tasks, in order.

    At most ``most`` chunks are worked on ahead of the chunk that the caller uses. Chunks that have not begun when the
    caller leaves the context are cancelled, so that the threads end soon.
    """
    waiting: deque[tuple[Chunk, Task[Result]]] = deque()

    def in_order() -> Iterator[tuple[Chunk, Task[Result]]]:
        for chunk in chunks:
            waiting.append((chunk, threads.submit(work, *chunk)))
            if len(waiting) > most:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()

    try:
        yield in_order()
    finally:
        for _, task in waiting:
            task.cancel()


def iterate_ahead(items: Iterable[Item]) -> Generator[Item, None, None]:
    """Yield items in order. A thread makes the next item while the caller uses the current item."""
    iterator = iter(items)

    def next_item() -> list[Item]:
        return list(islice(iterator, 1))

    with work_threads(1, "rocketstore-ahead") as threads:
        task = threads.submit(next_item)
        while made := task.result():
            task = threads.submit(next_item)
            yield made[0]
