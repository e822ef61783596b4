"""IndexFileList: the index files of a directory as a sequence. A bounded number of them is open."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from rocketstore.disk.descriptors import descriptor_share
from rocketstore.disk.store_path import StorePath
from rocketstore.index.index_file import IndexFile

LEAST_OPEN, MOST_OPEN = 16, 1024


@dataclass(eq=False, slots=True)
class ListedIndexFile:
    """An index file of a directory: its path, its identity when it was opened last, and the file if it is open."""

    path: StorePath
    identity: object = None
    file: IndexFile | None = None


class IndexFileList(Sequence[IndexFile]):
    """Index files, oldest first. Each is opened when it is used; iteration skips files that have expired.

    Source: IndexService.indexFileList.
    """

    def __init__(self, listed: list[ListedIndexFile], open_file: Callable[[ListedIndexFile], IndexFile]) -> None:
        self._listed = listed
        self._open_file = open_file
        self._by_name: dict[str, ListedIndexFile] | None = None  # built by the first find

    def find(self, name: str) -> IndexFile | None:
        """Return the file of a name, None if it has expired since it was listed."""
        if self._by_name is None:
            self._by_name = {listed.path.name: listed for listed in self._listed}
        listed = self._by_name.get(name)
        return None if listed is None else next(self._found(iter([listed])), None)

    @overload
    def __getitem__(self, at: int) -> IndexFile: ...
    @overload
    def __getitem__(self, at: slice) -> IndexFileList: ...
    def __getitem__(self, at: int | slice) -> IndexFile | IndexFileList:
        if isinstance(at, slice):
            return IndexFileList(self._listed[at], self._open_file)
        return self._open_file(self._listed[at])

    def __len__(self) -> int:
        return len(self._listed)

    def __iter__(self) -> Iterator[IndexFile]:
        return self._found(iter(self._listed))

    def __reversed__(self) -> Iterator[IndexFile]:
        return self._found(reversed(self._listed))

    def _found(self, files: Iterator[ListedIndexFile]) -> Iterator[IndexFile]:
        for listed in files:
            try:
                file = self._open_file(listed)
            except FileNotFoundError:
                continue
            yield file

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(operator.eq, self, other))

    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self))}]"


def max_open_files() -> int:
    """Return how many files of an index may be open at a time: at most a quarter of the process's descriptors."""
    return descriptor_share(4, least=LEAST_OPEN, most=MOST_OPEN)
