"""What each public function and each command requires of the store that it gets, and how it begins.

``begin_entry`` checks the requirements in the order of the table. So no entry forgets one, and all use the same words.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from rocketstore.broker_file import warn_once
from rocketstore.config import StoreConfig, require_config
from rocketstore.disk.descriptors import require_descriptors_to_read, require_descriptors_to_write
from rocketstore.disk.storage import local_path
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import SettingError, StoreError, StoreLockedError, UnsupportedFormatError
from rocketstore.queue.consume_queue import ConsumeQueue
from rocketstore.state.json_tables import batch_topics
from rocketstore.state.lock_file import StoreLock, is_held
from rocketstore.survey.broker_config import open_tables
from rocketstore.survey.nearby import did_you_mean, find_index_files, hint_at_store, require_directory, stores_in
from rocketstore.survey.owners import acquire_locks, hold_locks, require_log_directory
from rocketstore.survey.places import LocalPlaces, StorePlaces
from rocketstore.survey.sizes import require_batch_size
from rocketstore.survey.survey import Survey, survey_store

Requirement = Callable[[Survey], None]


# ---- requirements ------------------------------------------------------------------------------------------


def descriptors_to_read(survey: Survey) -> None:
    """The process may open enough files to read. Raises: OSError."""
    require_descriptors_to_read(survey.root)


def descriptors_to_write(survey: Survey) -> None:
    """The process may open enough files to write. Raises: OSError."""
    require_descriptors_to_write(survey.root)


def a_local_place(survey: Survey) -> None:
    """The store is on this machine, or on a shared file system. Raises: io.UnsupportedOperation."""
    local_path(survey.root)


def a_store(survey: Survey) -> None:
    """A store is here. Raises: StoreError naming the stores that a user probably means; OSError."""
    if not survey.has_store:
        require_directory(survey.root)
        reason = "no store is here, neither commitlog nor consumequeue nor index"
        raise StoreError(f"{survey.root}: {reason}{hint_at_store(survey.root)}")


def a_store_or_index_files(survey: Survey) -> None:
    """A store is here, or an index file, or a directory with index files. Raises: StoreError, OSError."""
    root = survey.root
    if survey.has_store:
        return
    if not root.is_file():
        require_directory(root)
    if not find_index_files(root):
        hint = hint_at_store(root) or ": give a store, its index directory, or one of the files there"
        raise StoreError(f"{root}: no store and no index files here{hint}")


def a_store_or_an_empty_root(survey: Survey) -> None:
    """A store is here, or the root is missing, or has no files that would be among those of a new store.

    Raises: StoreError, OSError.
    """
    allowed = {survey.places.config.name, survey.places.lock.name, "lost+found"}
    if not survey.has_store and survey.names - allowed:
        hint = hint_at_store(survey.root) or ": give a store or a new directory"
        raise StoreError(f"{survey.root}: is not a store, and is not empty{hint}")


def a_store_or_its_config(survey: Survey) -> None:
    """A store is here, or its configuration. Raises: as ``a_store``."""
    if not survey.places.config.is_dir():
        a_store(survey)


def no_other_store_here(survey: Survey) -> None:
    """A store is here, or the root is no directory with other stores or with files of a store.

    Raises: StoreError, OSError.
    """
    root = survey.root
    if survey.has_store or (survey.identity is None and not os.path.lexists(str(root))):
        return
    require_directory(root)
    if stores := stores_in(root):
        raise StoreError(f"{root}: a new store is not made in a directory with other stores{did_you_mean(stores)}")
    for path in root.iterdir():
        if path.name.isdecimal() and path.is_file():
            reason = "is of a commit log, a queue or an index: give the root of a store"
            raise StoreError(f"{path}: {reason}{hint_at_store(root)}")


def a_log_in_files(survey: Survey) -> None:
    """The log is not DLedger's. Raises: UnsupportedFormatError."""
    survey.formats.require_file_log()


def queues_in_files(survey: Survey) -> None:
    """The broker writes its queues to files alone. Raises: UnsupportedFormatError."""
    survey.formats.require_written_queues()


def config_in_files(survey: Survey) -> None:
    """The broker's topics and consumer offsets are in files. Raises: UnsupportedFormatError."""
    survey.formats.require_config_files()


def files_to_patch(survey: Survey) -> None:
    """Log, queues and topics are in files. Raises: UnsupportedFormatError that names what works for other stores."""
    parts = {
        a_log_in_files: "the commit log is DLedger's",
        queues_in_files: "the queues are, or may be, in RocksDB",
        config_in_files: "the broker's topics and consumer offsets are in RocksDB",
    }
    for requirement, part in parts.items():
        try:
            requirement(survey)
        except UnsupportedFormatError as error:
            advice = "patch writes only into files: salvage --out NEW copies the sound messages into a new store"
            raise UnsupportedFormatError(f"{survey.root}: {part}, and {advice}") from error


def a_named_log(survey: Survey) -> None:
    """The directories of the log are not only found by their files: no assumption is written. Raises: SettingError."""
    if survey.has_found_log:
        paths = ",".join(map(str, survey.places.log_directories))
        raise SettingError(
            f"{survey.root}: the commit log is not in {survey.places.default_log.name}, but by its files in "
            f"{survey.found_log}: to write, give its directories: storePathCommitLog={paths}",
            "store_path_commit_log",
            advice=f"pass config=StoreConfig(store_path_commit_log={paths!r})",
        )


def a_found_log(survey: Survey) -> None:
    """The commit log is where the configuration says. Raises: StoreError."""
    if not survey.formats.is_dledger:  # the reader raises if DLedger's log is missing
        require_log_directory(survey.places, survey.settings)


def a_found_or_new_log(survey: Survey) -> None:
    """As ``a_found_log``. The log of a store without queues is made where the configuration says."""
    if survey.places.queues(ConsumeQueue).is_dir():
        a_found_log(survey)


def a_stopped_store(survey: Survey) -> None:
    """No process writes the store. Raises: StoreLockedError."""
    if is_held(survey.places.lock):
        raise StoreLockedError(
            f"{survey.root}: is being written: stop the rocketstore writer, or the broker (sh bin/mqshutdown broker), "
            "first"
        )


def own_places(survey: Survey) -> None:
    """No directory that is changed belongs to another store, unless ``write_elsewhere``. Raises: StoreError."""
    if not survey.settings.write_elsewhere:
        survey.owners.require_own_places()


def a_writable_log(survey: Survey) -> None:
    """The configuration has a directory of the log that is not read-only. Raises: ValueError."""
    survey.settings.commit_log_paths(survey.root, writable=True)


def known_sizes(survey: Survey) -> None:
    """All sizes to write with are known. Raises: ValueError; CorruptFileError, OSError."""
    survey.find_sized_config()


def a_usable_batch_size(survey: Survey) -> None:
    """The broker's size for batch queues can be used, if a topic has batch queues. Raises: ValueError."""
    if batch_topics(open_tables(survey.places, survey.given).read_topics()):
        require_batch_size(survey.find_sized_config())


def assumed_sizes(survey: Survey) -> None:
    """Sizes are known, or the files suggest some. Raises: ValueError; CorruptFileError, OSError."""
    survey.assume_sized_config()


# ---- the table ---------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """What a function or a command requires, in the order in which it is checked.

    Attributes: before: at its begin. under_lock: also required of the store after its lock was taken. lists_files: as
    for ``survey_store``.
    """

    before: tuple[Requirement, ...]
    under_lock: tuple[Requirement, ...] = ()
    lists_files: bool = True


READER = Entry((descriptors_to_read, a_store), lists_files=False)
READER_OF_ANY = Entry((descriptors_to_read, a_store_or_index_files), lists_files=False)
FILES = (a_log_in_files, queues_in_files, config_in_files)
SIZES = (known_sizes, a_usable_batch_size)
RECOVER = (descriptors_to_write, a_local_place, a_store, *FILES, a_named_log, a_found_log, own_places)
BUILD = (descriptors_to_write, a_found_log, a_store)
CONVERT = (descriptors_to_write, a_local_place, a_store, a_found_log, a_stopped_store)
CONFIG = (a_local_place, a_store_or_its_config)
PUT = (a_writable_log, *FILES, a_named_log, a_found_or_new_log, own_places)
PUT_ANYWHERE = (descriptors_to_write, a_local_place, no_other_store_here, *PUT)

ENTRIES: dict[str, Entry] = {
    # functions
    "open r": READER,
    "open r+": Entry((*RECOVER, a_writable_log), SIZES),
    "open a": Entry(PUT_ANYWHERE, SIZES),
    "scan_polars": READER,
    "recover": Entry((*RECOVER, *SIZES)),
    "recover dry run": Entry((*RECOVER, assumed_sizes)),
    "rebuild": Entry((a_local_place, a_log_in_files, a_named_log, *BUILD, own_places)),
    "rebuild into a new directory": Entry(BUILD),
    "patch": Entry(
        (descriptors_to_write, a_local_place, a_store, files_to_patch, a_named_log, a_found_log, own_places, *SIZES)
    ),
    "salvage": Entry((descriptors_to_read, a_local_place)),
    "bundle": Entry((descriptors_to_read, a_local_place, a_store)),
    "convert": Entry(CONVERT),
    "split": Entry(CONVERT),
    "verify": Entry((descriptors_to_read, a_local_place, a_store)),
    "diff": READER,
    "copy": READER,
    "BrokerConfig.open": Entry(()),  # a missing directory counts as an empty one
    # commands; those that call a function above have its row
    "cat": READER,
    "config check": Entry((a_store_or_its_config,)),
    "config repair": Entry((*CONFIG, own_places)),
    "config repair dry run": Entry(CONFIG),
    "count": READER,
    "dlq": READER,
    "du": READER,
    "expire": READER,
    "export": READER,
    "get": READER,
    "hexdump": READER,
    "import": Entry((descriptors_to_write, a_local_place, a_store_or_an_empty_root, *PUT), SIZES),
    "info": READER_OF_ANY,
    "lag": READER,  # without readable offsets it shows the queues
    "ls": READER,
    "metrics": READER,
    "offset": READER,
    "pending": READER,
    "query": READER_OF_ANY,
    "report": READER,  # a part that cannot be read has the error instead of its charts
    "sql": READER,
    "trace": READER,
    # Spark
    "spark read": READER,
    "spark stream": READER,
    "spark table": READER,
    "spark query_messages": READER,
    # the path may also be that of an index file, or of an empty index directory
    "spark select_phy_offset": Entry((descriptors_to_read,), lists_files=False),
    "spark sink": Entry(PUT_ANYWHERE, (known_sizes,)),
    "spark build_index": Entry(BUILD),
    "spark rebuild_consume_queue": Entry(BUILD),
}


def begin_entry(entry: str, root: str | os.PathLike[str] | StorePath, config: StoreConfig | None = None) -> Survey:
    """Begin a function or a command: look at the store, and check what the entry requires.

    Parameters: entry: a name of ENTRIES. config: the caller's configuration.
    Raises: as the requirements; TypeError if ``config`` is no StoreConfig.
    """
    require_config(config)
    survey = survey_store(root, config, lists_files=ENTRIES[entry].lists_files)
    for requirement in ENTRIES[entry].before:
        requirement(survey)
    if survey.has_found_log:
        text = f"the commit log is not in {survey.places.default_log.name}; by its files it is in {survey.found_log}"
        warn_once(f"{survey.root}: {text}, which is read: name it in the broker's properties file or in config")
    return survey


def places_to_lock(survey: Survey) -> list[LocalPlaces]:
    """Return the places of a store, and those of the other stores that own its parts."""
    return [survey.local_places, *map(StorePlaces.of, survey.owners.other_roots)]


def take_locks(survey: Survey) -> list[StoreLock]:
    """Take the lock of a store, and those of the other stores that own its parts.

    Raises: StoreLockedError, OSError. No lock is taken then.
    """
    return acquire_locks(places_to_lock(survey))


def look_under_lock(entry: str, survey: Survey) -> Survey:
    """Look at a store again after its lock was taken. Only this survey may be acted on.

    The owners are those whose locks were taken, and the locks take some of the descriptors that were free. Raises: as
    ``begin_entry``.
    """
    now = survey_store(survey.root, survey.given)
    for requirement in (*ENTRIES[entry].before, *ENTRIES[entry].under_lock):
        if requirement not in (own_places, descriptors_to_read, descriptors_to_write):
            requirement(now)
    return now


@contextlib.contextmanager
def locked(entry: str, survey: Survey) -> Iterator[Survey]:
    """Hold the locks of ``take_locks``, and yield the survey of ``look_under_lock``."""
    with hold_locks(take_locks(survey)):
        yield look_under_lock(entry, survey)
