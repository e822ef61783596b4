"""The formats of the parts of a store: DLedger's log, and those that are not read.

Every command that reads or writes a store checks here first, so that it uses no files that the broker no longer uses.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rocketstore.config import StoreConfig
from rocketstore.disk.rocksdb.reader_program import find_missing_reader
from rocketstore.disk.storage import names_in
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import StoreError, UnsupportedFormatError
from rocketstore.java_text import parse_boolean, trim
from rocketstore.log.dledger import DLedgerLog
from rocketstore.messages.topics import LIGHT_QUEUE_PREFIX
from rocketstore.queue.batch_consume_queue import QUEUE_KINDS
from rocketstore.queue.queue_directories import queue_directories
from rocketstore.root_places import DLedgerPlaces
from rocketstore.state.broker_tables import TableContents
from rocketstore.state.config_values import LMQ_OFFSETS, OFFSETS
from rocketstore.state.rocksdb import (
    ROCKSDB,
    find_config_databases,
    has_rocksdb_data,
    holds_index,
    is_double_write_enabled,
    is_rocksdb,
    store_type,
)
from rocketstore.survey.places import AnyPlaces

CHOOSE_MEMBER = "give the broker's properties file (--broker-conf), whose dLegerSelfId is one of them"
TO_NEW = "rebuild --out NEW makes queues and index of it in a new directory"
GO_BACK = "if the broker uses files again, give its properties file with storeType=default (--broker-conf)"


@dataclass(frozen=True)
class StoreFormats:
    """The formats of a store's parts: files of RocketMQ's default store, or others. Nothing is kept open.

    ``is_dledger``: the log is DLedger's. ``queue_database``: the RocksDB of consume queues; None without one.
    ``are_queues_in_database``: consumers are served from it, and queues in files are older, if they exist.
    ``writes_one_format``: the broker's properties file was given, and by it the broker writes either this RocksDB or
    files. ``config_databases``: by name of each file of
    ``config`` that the broker does not use, the RocksDB that it uses in its place. ``index_database``: the RocksDB that
    has an index. ``has_other_data``: ``rocksdbstore`` has timers or transactions, and no index. ``has_light_queues``:
    consumers of light queues have stored offsets.
    ``compacted_topics``: consumers of these topics are served from ``compaction``. ``is_tiered``: older messages may be
    only in tiered storage.

    Source: DefaultMessageStore.createConsumeQueueStore, BrokerController.initializeMetadata.
    """

    places: AnyPlaces
    is_dledger: bool
    queue_database: StorePath | None
    are_queues_in_database: bool
    writes_one_format: bool
    config_databases: Mapping[str, StorePath]
    index_database: StorePath | None
    has_other_data: bool
    has_light_queues: bool
    compacted_topics: tuple[str, ...]
    is_tiered: bool

    @property
    def is_plain(self) -> bool:
        """Whether queues, topics, groups and consumer offsets are all in files."""
        return self.queue_database is None and not self.config_databases

    @property
    def must_build_queues(self) -> bool:
        """Whether the queues must be built from the log: they are in a RocksDB that cannot be read here."""
        return self.queue_database is not None and self.are_queues_in_database and find_missing_reader() is not None

    def require_light_queues(self, topic: str) -> None:
        """Raise UnsupportedFormatError if queues of a topic may be only in a RocksDB that cannot be read here.

        Parameters: topic: has no queues in files.
        """
        if self.queue_database is None or self.are_queues_in_database or not topic.startswith(LIGHT_QUEUE_PREFIX):
            return
        problem = find_missing_reader()
        if problem is not None:
            reason = f"light queues like {topic!r} may be only in this RocksDB: {problem}"
            raise UnsupportedFormatError(f"{self.queue_database}: {reason}")

    def require_file_log(self) -> None:
        """Raise UnsupportedFormatError if the log is DLedger's, which is read and not changed."""
        if self.is_dledger:
            reason = f"the commit log is DLedger's, which is read but not changed: {TO_NEW}"
            raise UnsupportedFormatError(f"{self.places.root}: {reason}")

    def require_written_queues(self) -> None:
        """Raise UnsupportedFormatError if the broker writes queues in RocksDB, or may do so beside those in files."""
        if self.are_queues_in_database:
            older = f"; the queues in files are older: {GO_BACK}" if has_file_queues(self.places) else ""
            reason = f"the queues are in RocksDB, which is not written: rebuild makes files of all queues{older}"
            raise UnsupportedFormatError(f"{self.queue_database}: {reason}")
        if self.queue_database is not None and not self.writes_one_format:
            reason = f"the broker may also write its queues to this RocksDB, which is not written; {GO_BACK}"
            raise UnsupportedFormatError(f"{self.queue_database}: {reason}")

    def require_offsets(self, contents: TableContents) -> None:
        """Raise StoreError if the consumer offsets are in a RocksDB of which none could be read."""
        for path, what in reversed(contents.problems):  # problems of offsets are behind those of other tables
            if path == self.config_databases.get(OFFSETS) and not contents.consumer_offsets:
                raise StoreError(f"{path}: {what}")

    def require_config_files(self) -> None:
        """Raise UnsupportedFormatError if the broker has its topics or consumer offsets in RocksDB."""
        for database in self.config_databases.values():
            reason = f"the broker's topics and consumer offsets are in RocksDB, which is not written; {GO_BACK}"
            raise UnsupportedFormatError(f"{database}: {reason}")

    def require_file_index(self) -> None:
        """Raise UnsupportedFormatError if the index is in RocksDB: it has no index files."""
        if self.index_database is not None:
            reason = find_missing_reader() or "it has no index files, and queries by key read it"
            raise UnsupportedFormatError(f"{self.index_database}: the index is in RocksDB: {reason}")

    def problems(self) -> list[str]:
        """Return the problems of a store whose answers may lack messages, because RocksDB is not read."""
        if self.queue_database is None or self.are_queues_in_database or not self.has_light_queues:
            return []
        problem = find_missing_reader()
        return [f"{self.queue_database}: light queues may be only in this RocksDB: {problem}"] if problem else []

    def notes(self, topics: Collection[str] | None = None) -> list[str]:
        """Return notes on topics whose consumers are not served from log and queues, and on queues that are not read.

        Parameters: topics: report only those of these topics that are compacted; None reports all.
        """
        found = [topic for topic in self.compacted_topics if topics is None or topic in topics]
        return [*_describe_elsewhere(self.places, found, is_tiered=False), *self._describe_built_queues()]

    def _describe_built_queues(self) -> list[str]:
        problem = find_missing_reader() if self.queue_database is not None and self.are_queues_in_database else None
        if problem is None:
            return []
        return [
            f"{self.queue_database}: the queues are in RocksDB: {problem}. They are built from the log, which lacks "
            "queues whose messages have all expired; delay levels are those of the configuration"
        ]

    def left_behind(self) -> list[str]:
        """Return notes on what stays in RocksDB after queues were built in files."""
        left = []
        if self.are_queues_in_database:
            left.append(
                f"{self.places.root}: the queues were in RocksDB: start the broker with storeType=default, "
                "or it does not use the queues that were built"
            )
        if self.config_databases:
            places = ", ".join(dict.fromkeys(str(path) for path in self.config_databases.values()))
            left.append(
                f"{self.places.root}: topics, consumer groups and offsets stay behind in RocksDB ({places}): "
                "with storeType=default and configManagerVersion=v1 the broker starts without them"
            )
        return left


def find_formats(places: AnyPlaces, config: StoreConfig | None = None) -> StoreFormats:
    """Find the formats of a store's parts. Changes nothing.

    The number of requests does not depend on the number of topics or queues.

    Parameters: config: the settings of the broker's properties file. Its storeType decides whether the broker uses
    RocksDB, and a file without storeType means files. Without the broker's file, the files that exist decide.
    """
    names, in_config = names_in(places.root), names_in(places.config)
    config_databases = find_config_databases(places.config, config) if in_config else {}
    database = next((path for path in places.queue_databases if path.name in names and is_rocksdb(path)), None)
    has_data = places.rocksdb.name in names and has_rocksdb_data(places.rocksdb)
    has_index = has_data and holds_index(places.rocksdb)
    return StoreFormats(
        places=places,
        is_dledger=_is_dledger(places, config, names),
        queue_database=database,
        writes_one_format=store_type(config) is not None and not is_double_write_enabled(config),
        are_queues_in_database=database is not None and _are_queues_in_database(places, config, config_databases),
        config_databases=config_databases,
        index_database=places.rocksdb if has_index else None,
        has_other_data=has_data and not has_index,
        has_light_queues=LMQ_OFFSETS in in_config,
        compacted_topics=_find_compacted_topics(places, names),
        is_tiered=_is_tiered(places, names, in_config),
    )


def find_elsewhere(
    places: AnyPlaces, is_wanted: Callable[[str], bool], *, tiered: bool = False, compacted: bool = False
) -> list[str]:
    """Say where consumers get other messages than those of log and queues, as ``StoreFormats.notes`` does.

    Two directories are listed, and a third if a topic was compacted.

    Parameters: is_wanted: whether a topic is read. tiered, compacted: whether these messages are read too.
    """
    names = names_in(places.root)
    topics = () if compacted else filter(is_wanted, _find_compacted_topics(places, names))
    return _describe_elsewhere(places, topics, not tiered and _is_tiered(places, names, names_in(places.config)))


def _find_compacted_topics(places: AnyPlaces, names: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(names_in(places.compacted_logs))) if places.compaction.name in names else ()


def _is_tiered(places: AnyPlaces, names: Collection[str], in_config: Collection[str]) -> bool:
    return places.tiered_index.name in names or places.tiered_metadata.name in in_config


def _describe_elsewhere(places: AnyPlaces, compacted_topics: Iterable[str], is_tiered: bool) -> list[str]:
    texts = [
        f"{places.compaction}: topic {topic!r} is compacted: its consumers get the newest message of each key from "
        "here, as get, ls, lag and offset do; the log has all messages that have not expired"
        for topic in compacted_topics
    ]
    if is_tiered:
        texts.append(f"{places.root}: the broker uses tiered storage: older messages may be only there")
    return texts


def _are_queues_in_database(places: AnyPlaces, config: StoreConfig | None, config_databases: Mapping[str, Any]) -> bool:
    """Return whether consumers are served from the RocksDB of queues, which exists.

    With rocksdbCQDoubleWriteEnable a broker with the default storeType writes RocksDB and files, and reads the files.
    """
    given = store_type(config)
    if given is not None:
        return given == ROCKSDB
    with contextlib.suppress(OSError):
        return bool(config_databases) or not has_file_queues(places)
    return False  # the caller gets the error when it lists the queues


def _is_dledger(places: AnyPlaces, config: StoreConfig | None, names: Collection[str]) -> bool:
    """Return whether the log is DLedger's. A directory of it decides, unless the broker's file says so or not so."""
    enabled = None if config is None else config.other.get("enableDLegerCommitLog")
    return bool(find_dledger_logs(places, names)) if enabled is None else parse_boolean(trim(enabled))


def find_dledger_logs(places: AnyPlaces, names: Iterable[str]) -> list[StorePath]:
    """Return the directories of DLedger's log, one for each member of its group that used this root.

    A directory with files of another kind only is not DLedger's. An empty one may have lost its files.

    Parameters: names: of the entries of the root.
    """
    return [path for path in places.dledger_logs(names) if path.is_dir() and _may_be_dledger(path)]


def _may_be_dledger(path: StorePath) -> bool:
    found = names_in(path)
    return not found or not found.isdisjoint(part.name for part in DLedgerPlaces(path).parts)


def find_dledger(places: AnyPlaces, config: StoreConfig) -> DLedgerLog | None:
    """Find the files of DLedger's log; None if the log has plain files only. The root is listed once.

    An older log of plain files may be below it.
    Raises: StoreError if there are logs of several members, and the broker's file does not choose one.
    Source: BrokerController.initializeMessageStore, DLedgerCommitLog.
    """
    names = names_in(places.root)
    if not _is_dledger(places, config, names):
        return None
    found = find_dledger_logs(places, names)
    self_id = config.other.get("dLegerSelfId")
    if self_id is not None:
        found = [places.dledger(trim(self_id))]
    if len(found) > 1:
        members = ", ".join(path.name for path in found)
        raise StoreError(
            f"{places.root}: has the logs of several members of a group of DLedger's, {members}: {CHOOSE_MEMBER}"
        )
    member = DLedgerPlaces(found[0] if found else places.dledger(""))
    data = tuple(config.dledger_log_paths(places.root)) or (member.data,)
    return DLedgerLog(data, member.index, member.checkpoint)


def find_log_directories(places: AnyPlaces, config: StoreConfig) -> list[StorePath]:
    """Return the directories of the log, those of DLedger's log first. They need not exist. Raises: as find_dledger."""
    dledger = find_dledger(places, config)
    return [*(() if dledger is None else dledger.data), *places.log_directories]


def has_file_queues(places: AnyPlaces) -> bool:
    return any(any(queue_directories(places.queues(kind))) for kind in QUEUE_KINDS)
