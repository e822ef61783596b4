"""The files of a store that verification opens: queue and index files, with their names and lengths checked."""

from __future__ import annotations

import contextlib
import operator
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from rocketstore.config import DEFAULT_SIZES, StoreConfig
from rocketstore.disk.file_run_reader import FileRunReader, RunFile, find_run_files, has_gap
from rocketstore.errors import CorruptFileError
from rocketstore.index.geometry import GEOMETRY_SETTINGS, IndexGeometry, geometry_of, longest_first
from rocketstore.index.index_directory import index_paths, is_index_name
from rocketstore.kernels.queue_id import QueueId
from rocketstore.queue.batch_consume_queue import QUEUE_KINDS, BatchConsumeQueue
from rocketstore.queue.consume_queue_ext import ConsumeQueueExt
from rocketstore.queue.queue_directories import is_queue_name
from rocketstore.state.lock_file import is_held
from rocketstore.survey.formats import StoreFormats
from rocketstore.survey.places import QueueKind, StorePlaces
from rocketstore.verify.findings import Findings
from rocketstore.verify.index.checked_index_file import CheckedIndexFile
from rocketstore.verify.queues.ext_files import ExtFiles
from rocketstore.verify.queues.queue_files import QueueFiles
from rocketstore.verify.start import stray_entries, stray_files

ENTRY_NAME: Callable[[os.DirEntry[str]], str] = operator.attrgetter("name")


class ListedQueue(NamedTuple):
    """The directory of a queue, the files that were listed in it, and its ext files; None for a queue without them."""

    directory: Path
    files: list[RunFile]
    ext: ExtFiles | None


class FileListing:
    """Lists the files of a store. Reports entries that are not the store's, or have a wrong name or length.

    Attributes: is_locked: a broker is running. last_exit_ok: there is no abort file.
    """

    def __init__(
        self,
        places: StorePlaces[Path],
        config: StoreConfig,
        formats: StoreFormats,
        findings: Findings,
        is_locked: bool,
        last_exit_ok: bool,
    ) -> None:
        self.places, self.config, self.formats, self.findings = places, config, formats, findings
        self.is_locked, self.last_exit_ok = is_locked, last_exit_ok

    def entries(self, directory: Path) -> list[os.DirEntry[str]]:
        """Return the entries of a directory by name, none of a directory that is missing or cannot be listed."""
        missing = contextlib.suppress(FileNotFoundError)
        found: list[os.DirEntry[str]] = []
        with self.findings.reporting_errors(directory), missing, os.scandir(directory) as entries:
            found = list(entries)
        return sorted(found, key=ENTRY_NAME)

    def check_stray_files(self, directory: Path) -> None:
        """Report stray files beside the numbered files of a file run: a broker would try to load them."""
        with self.findings.reporting_errors(directory), contextlib.suppress(FileNotFoundError):
            os.scandir(directory).close()
        for end, path, detail in stray_files(directory):
            self.findings.add(f"foreign-file{end}", path, 0, detail)

    def _queue_directories(self, kind: QueueKind) -> Iterator[tuple[QueueId, Path]]:
        """Yield the queues of a kind, or their ext files; report entries that are no queue."""
        directory = self.places.queues(kind)
        for topic in self.entries(directory):
            if not is_true(topic.is_dir):
                if self.formats.queue_database != directory:
                    self.findings.add("foreign-file", Path(topic.path), 0, "no topic")
                continue
            for queue in self.entries(Path(topic.path)):
                if is_queue_name(queue.name) and is_true(queue.is_dir):
                    yield QueueId(topic.name, int(queue.name)), Path(queue.path)
                else:
                    self.findings.add("foreign-file", Path(queue.path), 0, "no queue id")

    def queues(self, topics: Collection[str], batch_topics: set[str]) -> Iterator[tuple[QueueId, QueueFiles]]:
        """Yield the queues of the store, plain and batch. Report wrong directories, names and lengths."""
        if self.formats.are_queues_in_database:  # queues in files are older
            return
        ext = dict(self._queue_directories(ConsumeQueueExt))
        for kind in QUEUE_KINDS:
            is_batch = kind is BatchConsumeQueue
            found: dict[QueueId, ListedQueue] = {}
            for queue, directory in self._queue_directories(kind):
                with self.findings.reporting_errors(directory):
                    files = self._list_files(directory)
                    ext_files = self._ext_files(ext[queue]) if queue in ext and not is_batch else None
                    found[queue] = ListedQueue(directory, files, ext_files)
                if (queue.topic in batch_topics) != is_batch and (topics or not is_batch):
                    self.findings.add("queue-wrong-root", directory, 0, "queue.type of the topic is another")
            size = getattr(self.config, kind.size_name) or find_most_frequent_size(found.values())
            for queue, listed in found.items():
                self._check_lengths(listed.files, size)
                yield queue, QueueFiles(listed.directory, is_batch, size, listed.ext, listed.files)

    def _list_files(self, directory: Path) -> list[RunFile]:
        """Return the files of a queue. Report stray files beside them. Raises: OSError."""
        with os.scandir(directory) as found:
            entries = sorted(found, key=ENTRY_NAME)
        for end, path, detail in stray_entries(entries):
            self.findings.add(f"foreign-file{end}", path, 0, detail)
        files = list(find_run_files(directory, entries))
        return FileRunReader([directory]).files if has_gap(files) else files

    def _ext_files(self, directory: Path) -> ExtFiles:
        files = ExtFiles(directory, self.config.mapped_file_size_consume_queue_ext)
        for end, path, detail in stray_files(directory):
            self.findings.add(f"ext-foreign-file{end}" if end else "foreign-file", path, 0, detail)
        self.findings.check_lengths("ext", files.files, files.size)
        return files

    def _check_lengths(self, files: Sequence[RunFile], size: int) -> None:
        """Check the lengths and the names of the files of a queue. Parameters: size: of each file, bytes."""
        self.findings.check_lengths("queue", files, size)
        self.findings.check_names("queue", files, size)
        for before, file in pairwise(files):
            if file.file_from_offset - before.file_from_offset > size > 0:
                self.findings.add("queue-file-missing", file.path, 0, f"{before.path.name} is the one before")

    def index_files(self) -> list[CheckedIndexFile]:
        """Return the index files that can be checked. Report wrong names and lengths."""
        directory = self.places.index
        self._check_index_names(directory)
        checked: list[CheckedIndexFile] = []
        with self.findings.reporting_errors(directory), contextlib.suppress(FileNotFoundError):
            paths = [path for path in index_paths(directory) if len(path.name) == 17]
            geometry = self._find_geometry(paths)
            if geometry is None:
                return []
            for path in paths:
                with self.findings.reporting_errors(path):
                    if self._has_length(path, geometry):
                        checked.append(CheckedIndexFile(path, geometry, self.is_locked, not self.last_exit_ok))
        return checked

    def _has_length(self, path: Path, geometry: IndexGeometry) -> bool:
        """Return whether an index file has the length of its geometry, or can be read as if zeros followed it.

        Report another length.
        """
        length, size = path.stat().st_size, geometry.file_size
        if length == 0 and not self.last_exit_ok:
            self.findings.add("index-torn-put", path, 0, "the file has not got its length yet")
        elif length != size:
            detail = f"{length} bytes, {geometry.hash_slot_num} slots and {geometry.index_num} items need {size}"
            self.findings.add("index-file-size" if length > size else "index-file-short", path, length, detail)
        return 0 < length <= size

    def _check_index_names(self, directory: Path) -> None:
        for entry in self.entries(directory):
            if is_index_name(entry.name) and is_true(entry.is_dir):
                self.findings.add("foreign-file-fatal", Path(entry.path), 0, "a directory by the name of an index file")
            elif not is_index_name(entry.name) or not is_true(entry.is_file):
                self.findings.add("foreign-file", Path(entry.path), 0, "no index file")
            elif len(entry.name) != 17 or not entry.name.isascii():
                self.findings.add("index-file-name", Path(entry.path), 0, entry.name)

    def _find_geometry(self, paths: list[Path]) -> IndexGeometry | None:
        """Return the geometry of the index files; None, and a finding, if it is unknown."""
        config = self.config
        if config.max_hash_slot_num and config.max_index_num:
            return IndexGeometry(config.max_hash_slot_num, config.max_index_num)
        for path in longest_first(paths):
            with contextlib.suppress(ValueError, CorruptFileError):
                return geometry_of([path], for_writing=False)
        lengths = {path.stat().st_size for path in paths}
        for sizes in (DEFAULT_SIZES, config.new_store_sizes):
            usual = IndexGeometry(*(sizes[name] for name in GEOMETRY_SETTINGS))
            if lengths == {usual.file_size}:
                return usual
        if paths:
            self.findings.add("index-geometry", paths[0].parent, 0, "give maxHashSlotNum and maxIndexNum")
        return None


def find_most_frequent_size(queues: Iterable[ListedQueue]) -> int:
    """Return the length that most files of some queues have, bytes; 0 without a file. A tie goes to the longest."""
    sizes = Counter(file.size for queue in queues for file in queue.files if file.size)
    return max(sizes, key=lambda size: (sizes[size], size), default=0)


def is_true(question: Callable[[], bool]) -> bool:
    """Return the answer of a directory entry; False if it cannot be known, as for a link to itself."""
    with contextlib.suppress(OSError):
        return question()
    return False


def is_lock_held(lock: Path) -> bool:
    """Return whether another process holds the lock of a store."""
    return is_true(lambda: is_held(lock))
