"""RocksTables: a broker's topics, consumer groups and consumer offsets in RocksDB, its other tables in files."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from reprlib import repr as short
from typing import Any, NamedTuple

from rocketstore.disk.rocksdb.rocks_database import KeyRange, RocksDatabase
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import CorruptFileError, StoreError, text_of
from rocketstore.state.broker_tables import ConfigProblem, TableContents
from rocketstore.state.config_json import parse_json
from rocketstore.state.config_values import (
    GROUPS,
    OFFSET_TABLE,
    OFFSETS,
    TABLE_NAMES,
    TOPICS,
    TYPED_FILES,
    TopicConfig,
    read_object,
    read_table,
)
from rocketstore.state.json_tables import JsonTables
from rocketstore.state.rocksdb import ALL_IN_ONE, VERSION_2

PARTS = {TOPICS: "topics", GROUPS: "consumer groups", OFFSETS: "consumer offsets"}
FAMILIES = {TOPICS: "topic", GROUPS: "subscriptionGroup", OFFSETS: "consumerOffset"}  # of the single database
DEFAULT_FAMILY, FORBIDDEN_FAMILY = "default", "forbidden"
FORBIDDEN_TABLE = "forbiddenTable"  # of subscriptionGroup.json
# Version 2: numbers of tables. Source: TableId, RecordPrefix, SerializationType.
TABLE_IDS = {OFFSETS: 1, TOPICS: 3, GROUPS: 4}
TABLE_PREFIX, RECORD_PREFIX, AS_JSON = 1, 2, b"\x01"
PREFIX = struct.Struct(">BhB")
LENGTH, QUEUE_ID, OFFSET = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")


@dataclass(frozen=True)
class RocksTables:
    """A broker's tables, of which some are in RocksDB. Nothing is kept open, and every call reads them again.

    Attributes: files: the tables in files; those in RocksDB are left out there. databases: the RocksDB of each table,
    by the name of the file that it replaces. remote_copy_limit: bytes of a remote RocksDB that are copied.
    Source: RocksDBConfigManager, RocksDBTopicConfigManager, RocksDBSubscriptionGroupManager,
    RocksDBConsumerOffsetManager; version 2: ConfigStorage, ConfigHelper.
    """

    files: JsonTables
    databases: Mapping[str, StorePath]
    remote_copy_limit: int

    def read_topics(self, *, must_be_good: bool = False) -> dict[str, TopicConfig]:
        """Read the topics alone, as ``read_all`` does.

        Parameters: must_be_good: raise StoreError if they cannot be read. Otherwise the result is then empty.
        """
        if TOPICS not in self.databases:
            return self.files.read_topics(must_be_good=must_be_good)
        table = self._read(TOPICS)
        if must_be_good and table.problems:
            raise StoreError(f"{table.problems[0].path}: {table.problems[0].what}")
        return table.typed

    def read_declared_topics(self) -> set[str]:
        """Return the names of the topics that exist now; empty if that is unknown.

        Version 2 lacks topics that the broker makes itself, for example those of retries.
        """
        if TOPICS not in self.databases:
            return self.files.read_declared_topics()
        if self.databases[TOPICS].name == VERSION_2:
            return set()
        table = self._read(TOPICS)
        return set() if table.problems else {*table.typed}

    def read_pull_offsets(self) -> dict[str, dict[str, dict[int, int]]]:
        """Read the pull offsets of consumerOffset.json; empty if the consumer offsets are in RocksDB."""
        return {} if OFFSETS in self.databases else self.files.read_pull_offsets()

    def read_all(self) -> TableContents:
        """Read all tables. A table that cannot be read is empty. Raises: FileNotFoundError without a store."""
        contents = self.files.read_all()
        tables, problems = {}, list(contents.problems)
        for file in PARTS:
            if file in self.databases:
                table = self._read(file)
                tables[file] = table.typed
                problems += table.problems
        return replace(
            contents,
            topics=tables.get(TOPICS, contents.topics),
            subscription_groups=tables.get(GROUPS, contents.subscription_groups),
            consumer_offsets=tables.get(OFFSETS, contents.consumer_offsets),
            problems=problems,
            offsets_file=self.databases[OFFSETS].name if OFFSETS in self.databases else contents.offsets_file,
        )

    def check(self) -> list[ConfigProblem]:
        """Read every file and every table in RocksDB, and return the problems. Raises: as ``read_all``."""
        in_database = (problem for file in PARTS if file in self.databases for problem in self._read(file).problems)
        return [*self.files.check(), *in_database]

    def read_json(self, file: str) -> dict[str, Any] | None:
        """Return the JSON of a file of ``config`` that has a table in RocksDB; None if the RocksDB cannot be read.

        A member that cannot be decoded is left out.
        """
        table = self._read(file)
        if not table.is_complete or (table.problems and not table.members):
            return None
        root = {TABLE_NAMES[file]: table.members}
        if self._has_forbidden(file):
            root[FORBIDDEN_TABLE] = table.forbidden
        return root

    def _has_forbidden(self, file: str) -> bool:
        """Return whether the RocksDB of a file also has the table of what consumer groups may not read."""
        return file == GROUPS and self.databases[file].name != VERSION_2

    def _read(self, file: str) -> _Table:
        """Read a table. A member that cannot be decoded is left out."""
        directory, what = self.databases[file], PARTS[file]
        table: dict[str, Any] = {}
        members: dict[str, Any] = {}
        forbidden: dict[str, Any] = {}
        problems = []
        is_complete = False
        try:
            with RocksDatabase(directory, remote_copy_limit=self.remote_copy_limit) as database:
                for key, value in _rows_of(database, directory.name, file):
                    try:
                        member = _member_of(directory.name, file, key, value)
                        _merge(table, TYPED_FILES[file]({TABLE_NAMES[file]: dict([member])}))
                        _merge(members, dict([member]))
                    except (ValueError, RecursionError) as error:
                        problem = f"{short(key)} of the {what} cannot be decoded: {error}"
                        problems.append(ConfigProblem(directory, problem))
                for key, value in _forbidden_rows(database) if self._has_forbidden(file) else ():
                    try:
                        forbidden[key.decode()] = parse_json(value)
                    except (ValueError, RecursionError) as error:
                        problem = f"{short(key)} of {FORBIDDEN_TABLE} cannot be decoded: {error}"
                        problems.append(ConfigProblem(directory, problem))
                is_complete = True
        except CorruptFileError as error:
            problems.append(ConfigProblem(directory, f"the {what} cannot be read: {error.reason}"))
        except (StoreError, OSError) as error:
            reason = text_of(error).removeprefix(f"{directory}: ")
            problems.append(ConfigProblem(directory, f"the {what} are in this RocksDB, which is not read: {reason}"))
        return _Table(table, members, forbidden, problems, is_complete)


class _Table(NamedTuple):
    """A table of RocksDB. Attributes: typed: as TYPED_FILES decodes it. members: as JSON.

    forbidden: of the consumer groups, the JSON of what they may not read, by group. is_complete: all rows were read.
    """

    typed: dict[str, Any]
    members: dict[str, Any]
    forbidden: dict[str, Any]
    problems: list[ConfigProblem]
    is_complete: bool


def _merge(table: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add members of a table. The members of consumer offsets are groups, each with its topics and queues."""
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(table.get(name), dict):
            _merge(table[name], value)
        else:
            table[name] = value


def _rows_of(database: RocksDatabase, directory: str, file: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a table. Parameters: directory: the name of the RocksDB's directory."""
    if directory == VERSION_2:
        family, keys = DEFAULT_FAMILY, KeyRange.of_prefix(PREFIX.pack(TABLE_PREFIX, TABLE_IDS[file], RECORD_PREFIX))
    else:
        family, keys = FAMILIES[file] if directory == ALL_IN_ONE else DEFAULT_FAMILY, KeyRange()
    for rows in database.read(family, keys):
        yield from rows


def _forbidden_rows(database: RocksDatabase) -> Iterator[tuple[bytes, bytes]]:
    for rows in database.read(FORBIDDEN_FAMILY, KeyRange()):
        yield from rows


def _member_of(directory: str, file: str, key: bytes, value: bytes) -> tuple[str, Any]:
    """Return the member of the file's table that a row stands for. Raises: ValueError, RecursionError."""
    if directory != VERSION_2:
        members = parse_json(value)
        # Source: RocksDBOffsetSerializeWrapper.
        return key.decode(), read_table(read_object(members, "value"), OFFSET_TABLE) if file == OFFSETS else members
    name, rest = _split_text(key[PREFIX.size :])
    if file == OFFSETS:
        topic, rest = _split_text(rest[1:])
        if len(rest) != 1 + QUEUE_ID.size or len(value) != OFFSET.size:
            raise ValueError("a queue id and an offset were expected")
        return f"{topic}@{name}", {QUEUE_ID.unpack(rest[1:])[0]: OFFSET.unpack(value)[0]}
    if value[:1] != AS_JSON:
        raise ValueError("JSON was expected")
    return name, parse_json(value[1:])


def _split_text(data: bytes) -> tuple[str, bytes]:
    """Return the text at the begin of some bytes, which its length precedes, and the bytes behind it."""
    size = LENGTH.unpack_from(data)[0] if len(data) >= LENGTH.size else -1
    end = LENGTH.size + size
    if not 0 <= size <= len(data) - LENGTH.size:
        raise ValueError("a length and a text were expected")
    return data[LENGTH.size : end].decode(), data[end:]
