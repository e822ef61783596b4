"""survey: look at a store's directory once, and return what is there as one value."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection
from dataclasses import dataclass, replace

from rocketstore.config import SizedConfig, StoreConfig
from rocketstore.disk.storage import is_remote, local_path, names_in, to_path
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import StoreError
from rocketstore.index.index_directory import index_paths
from rocketstore.lazy import lazy_property
from rocketstore.survey.condition import FileLists, list_files, read_checkpoint
from rocketstore.survey.formats import StoreFormats, find_dledger_logs, find_formats
from rocketstore.survey.found_log import find_log_in_root
from rocketstore.survey.owners import Owners, find_owners
from rocketstore.survey.places import LocalPlaces, StorePlaces
from rocketstore.survey.sizes import StoreSizes, find_sizes, planning_config, writing_config


@dataclass(frozen=True)
class Survey:
    """What a look at a store's directory found. A missing or empty root is the survey of a new store.

    The number of calls of the file system does not depend on the number of topics, queues or messages. ``formats``,
    ``sizes`` and ``owners`` are read when they are asked for, and kept. ``sizes`` and ``owners`` list queues.

    Attributes: places. given: the caller's configuration; None for the settings that the store was last written with.
    timestamp: epoch milliseconds. identity: device and number of the root directory; None if it is missing or remote.
    names: of the entries of the root. checkpoint: its bytes; None if it is missing, and for a remote store, which is
    never changed. files: those of log and index; None for a reader, which lists the files when it opens these parts.
    has_found_log: whether no configuration names the directories of the log, which were found by their files. This is
    an assumption.
    """

    places: StorePlaces[StorePath]
    given: StoreConfig | None
    timestamp: int
    identity: tuple[int, int] | None
    names: frozenset[str]
    checkpoint: bytes | None
    files: FileLists | None
    has_found_log: bool = False

    @property
    def root(self) -> StorePath:
        return self.places.root

    @property
    def local_places(self) -> LocalPlaces:
        """The places of a store that is changed. Raises: io.UnsupportedOperation for a remote store."""
        return StorePlaces(local_path(self.root), self.places.log_directories)

    @property
    def settings(self) -> StoreConfig:
        """The caller's configuration, or the defaults."""
        return self.given or StoreConfig()

    @property
    def has_store(self) -> bool:
        """Whether the root has a log, queues or an index.

        Other programs have a directory ``index`` too, or one with a name like ``dledger-src``. Such a directory counts
        if it has a file of an index, or a part of DLedger's log.
        """
        if any(map(is_known_directory, self.places.log_directories)):
            return True
        if any(map(names_in, find_dledger_logs(self.places, self.names))):
            return True
        if any(part.name in self.names and part.is_dir() for part in self.places.queue_parts):
            return True
        index = self.places.index
        return index.name in self.names and index.is_dir() and bool(index_paths(index))

    @lazy_property
    def formats(self) -> StoreFormats:
        return find_formats(self.places, self.given)

    @lazy_property
    def sizes(self) -> StoreSizes:
        """The sizes of the files, and who states each. Raises: as ``find_sizes``."""
        return find_sizes(self.places, self.given)

    @lazy_property
    def owners(self) -> Owners:
        """The parts that belong to another store. Raises: OSError."""
        return find_owners(self.places, self.settings)

    def sizes_without(self, replaced: Collection[str]) -> StoreSizes:
        """Return the sizes, without reading files that the caller replaces. Parameters: as for ``find_sizes``."""
        return find_sizes(self.places, self.given, replaced=replaced)

    def find_sized_config(self) -> SizedConfig:
        """Return the configuration to write the store with.

        Raises: ValueError that names all sizes that must be given; CorruptFileError, OSError.
        """
        return writing_config(self.places, self.sizes)

    def assume_sized_config(self) -> tuple[SizedConfig, tuple[str, ...]]:
        """Return the configuration for a dry run, and notes on sizes that no file shows for certain."""
        return planning_config(self.places, self.sizes)

    @property
    def problems(self) -> list[str]:
        """The problems of a store whose answers may lack messages."""
        return self.formats.problems()

    @property
    def notes(self) -> list[str]:
        """Notes on topics whose consumers are not served from log and queues, and on queues that are not read."""
        return self.formats.notes()

    @property
    def found_log(self) -> str:
        """The names of the directories of the log, for a text about an assumption."""
        return ", ".join(path.name for path in self.places.log_directories)

    def require_unchanged(self) -> None:
        """Raise StoreError if the root is another directory now, or the checkpoint or a list of files changed."""
        assert self.files is not None
        now = survey_store(self.root, self.given)
        assert now.files is not None
        changed = [
            what
            for what, is_changed in (
                ("the root directory", now.identity != self.identity),
                ("the checkpoint", now.checkpoint != self.checkpoint),
                ("the commit log", now.files.log_files != self.files.log_files),
                ("the index", now.files.index_files != self.files.index_files),
            )
            if is_changed
        ]
        if changed:
            raise StoreError(f"{self.root}: {' and '.join(changed)} changed after the plan was made: repeat the call")


def survey_store(
    root: str | os.PathLike[str] | StorePath, config: StoreConfig | None = None, *, lists_files: bool = True
) -> Survey:
    """Look at the directory of a store, which may be missing, empty or remote. Nothing is changed or kept open.

    Parameters: config: the caller's configuration; None for the settings that the store was last written with. Its
    sizes that are only for a new store are left out. lists_files: also list the files of log and index, which a plan
    that changes the store needs.
    """
    place = to_path(root)
    config = None if config is None else config.without_new_store_sizes()
    places = StorePlaces.of(place, config)
    found = find_other_log(places, config)
    places = replace(places, log_directories=found or places.log_directories)
    now = time.time_ns() // 1_000_000
    files = list_all_files(places) if lists_files else None
    names = frozenset(names_in(place))
    checkpoint = None if is_remote(place) else read_checkpoint(places)
    return Survey(places, config, now, find_identity(place), names, checkpoint, files, bool(found))


def is_known_directory(path: StorePath) -> bool:
    """Return whether a path is a directory; False if that cannot be known, as without a permission."""
    with contextlib.suppress(OSError):
        return path.is_dir()
    return False


def list_all_files(places: StorePlaces[StorePath]) -> FileLists:
    """List the files of a store that a repair changes."""
    log = tuple(map(list_files, places.log_directories))
    return FileLists(log, None if is_remote(places.root) else list_files(places.index))


def find_other_log(places: StorePlaces[StorePath], config: StoreConfig | None) -> tuple[StorePath, ...]:
    """Return the directories of a log in the root that no configuration names; none if the log is where it belongs."""
    is_named = config is not None and config.store_path_commit_log
    if is_named or is_remote(places.root) or places.default_log.is_dir():
        return ()
    return find_log_in_root(local_path(places.root))


def find_identity(root: StorePath) -> tuple[int, int] | None:
    """Return device and number of a local directory; None if it is missing or remote."""
    if is_remote(root):
        return None
    with contextlib.suppress(OSError):
        status = root.stat()
        return status.st_dev, status.st_ino
    return None
