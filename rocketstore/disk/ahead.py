"""Read-ahead: threads work on the next chunks while the caller uses the results, in the order of the chunks."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Chunk = TypeVar("Chunk", bound=tuple[object, ...])
Result = TypeVar("Result")
Item = TypeVar("Item")


@contextlib.contextmanager
def read_ahead(
    pool: Executor, most: int, work: Callable[..., Result], chunks: Iterable[Chunk]
) -> Iterator[Iterator[tuple[Chunk, Future[Result]]]]:
    """Run ``work(*chunk)`` in a pool for each chunk. Yield an iterator of chunks and their futures, in order.

    At most ``most`` chunks are worked on ahead of the chunk that the caller uses. Chunks that have not begun when the
    caller leaves the context are cancelled, so that the pool ends soon.
    """
    waiting: deque[tuple[Chunk, Future[Result]]] = deque()

    def in_order() -> Iterator[tuple[Chunk, Future[Result]]]:
        for chunk in chunks:
            waiting.append((chunk, pool.submit(work, *chunk)))
            if len(waiting) > most:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()

    try:
        yield in_order()
    finally:
        for _, future in waiting:
            future.cancel()


@contextlib.contextmanager
def work_threads(count: int, name: str) -> Iterator[ThreadPoolExecutor]:
    """Yield threads, and wait for their work at the end.

    After an error or Ctrl-C, work that has not begun is cancelled, so that the threads end soon.
    """
    with ThreadPoolExecutor(count, name) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def iterate_ahead(items: Iterable[Item]) -> Generator[Item, None, None]:
    """Yield items in order. A thread makes the next item while the caller uses the current item."""
    iterator = iter(items)

    def next_item() -> list[Item]:
        return list(islice(iterator, 1))

    with ThreadPoolExecutor(1, "rocketstore-ahead") as pool:
        future = pool.submit(next_item)
        while made := future.result():
            future = pool.submit(next_item)
            yield made[0]
