"""The files of a store's configuration: which of them are copied, and limits of the offsets in them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from rocketstore.disk.small_file import read_small_file
from rocketstore.disk.storage import scandir
from rocketstore.disk.store_path import StorePath
from rocketstore.messages.topics import SCHEDULE_TOPIC
from rocketstore.state.config_checks import OTHER_FILES
from rocketstore.state.config_json import encode_json, parse_json
from rocketstore.state.config_values import (
    INT,
    LMQ_OFFSETS,
    LONG,
    OFFSET_TABLE,
    OFFSETS,
    TYPED_FILES,
    read_integer,
    read_object,
    read_table,
)
from rocketstore.state.rocksdb import ALL_IN_ONE, DATABASES, VERSION_2
from rocketstore.state.topic_files import DELAY_OFFSETS, files_of_topics, parse_object
from rocketstore.survey.places import AnyPlaces
from rocketstore.survey.sizes import PATHS

BAK = ".bak"
SETTINGS = "rocketstore.json"
LMQ_TABLE = "lmqOffsetTable"
FindEnd = Callable[[str, int], int | None]


@dataclass(frozen=True)
class ConfigFiles:
    """The configuration of a store at one time.

    Attributes: files: the bytes of the files by name. databases: the directories of RocksDB by name. others: the paths
    by name of all that may have credentials, such as files of access control.
    """

    files: Mapping[str, bytes]
    databases: Mapping[str, StorePath]
    others: Mapping[str, StorePath]


def read_config_files(places: AnyPlaces) -> ConfigFiles:
    """Read the files that a broker keeps beside its messages. Files with another name may have credentials."""
    known = {*TYPED_FILES, *OTHER_FILES, places.saved_settings.name}
    known |= {places.timer_checkpoint.name, places.tiered_metadata.name}
    databases = {*DATABASES.values(), VERSION_2, ALL_IN_ONE}
    files: dict[str, bytes] = {}
    directories: dict[str, StorePath] = {}
    others: dict[str, StorePath] = {}
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), scandir(places.config) as entries:
        for entry in sorted(entries, key=lambda entry: str(entry.name)):
            path = places.config / entry.name
            if entry.is_dir():
                (directories if entry.name in databases else others)[entry.name] = path
            elif entry.name.removesuffix(BAK) not in known:
                others[entry.name] = path
            elif entry.is_file():
                with contextlib.suppress(FileNotFoundError):  # a broker replaces it just now, and its .bak is read
                    files[entry.name] = read_small_file(path)
    settings = places.saved_settings.name
    if settings in files:
        files[settings] = without_paths(files[settings])
    return ConfigFiles(files, directories, others)


def config_of_topics(config_files: ConfigFiles, topics: Collection[str]) -> ConfigFiles:
    """Return the configuration of some topics, and the settings of the store."""
    files = config_files.files
    kept = files_of_topics(files_as_read(files), topics)
    settings = {name: data for name, data in files.items() if name == SETTINGS}
    return ConfigFiles({**kept, **settings}, {}, config_files.others)


def files_as_read(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files that a broker reads, by name: in place of a missing or bad file, its .bak."""
    backups = {name.removesuffix(BAK): data for name, data in files.items() if name.endswith(BAK)}
    good = {name: data for name, data in files.items() if not name.endswith(BAK) and parse_object(data) is not None}
    return {**backups, **good}


def without_paths(data: bytes) -> bytes:
    """Return the saved settings of a store without paths, which lead to the old store."""
    with contextlib.suppress(ValueError):
        settings = json.loads(data)
        if isinstance(settings, dict) and not settings.keys().isdisjoint(PATHS):
            return encode_json({name: value for name, value in settings.items() if name not in PATHS})
    return data


def limit_offsets(name: str, data: bytes, find_end: FindEnd) -> tuple[bytes, int]:
    """Limit the offsets in a file of the configuration to the ends of the queues. Other bytes stay if none is larger.

    Parameters: name: of the file. find_end: returns the end of a queue, None for an unknown queue.
    Returns: the bytes, and the number of offsets that were limited.
    """
    kind, count = name.removesuffix(BAK), 0
    if kind not in (OFFSETS, LMQ_OFFSETS, DELAY_OFFSETS):
        return data, 0
    with contextlib.suppress(ValueError, RecursionError):  # a broker does not read a bad file either
        root = parse_json(data)
        for place in find_offsets(kind, root):
            end = find_end(place.topic, place.queue_id)
            if end is not None and read_integer(place.members[place.key], LONG) > end:
                place.members[place.key] = end
                count += 1
        return (encode_json(root), count) if count else (data, 0)
    return data, 0


class OffsetPlace(NamedTuple):
    """An offset in a file: the JSON object with it, its key, and the queue."""

    members: dict[str, Any]
    key: str
    topic: str
    queue_id: int


def find_offsets(kind: str, root: Any) -> Iterator[OffsetPlace]:
    """Yield all offsets of a file. Parameters: kind: its name. Raises: ValueError for other JSON."""
    table = read_table(read_object(root, kind), OFFSET_TABLE)
    if kind == DELAY_OFFSETS:
        yield from (OffsetPlace(table, level, SCHEDULE_TOPIC, read_integer(level, INT) - 1) for level in table)
        return
    for key, queues in table.items():
        members = read_object(queues, key)
        yield from (
            OffsetPlace(members, number, key.partition("@")[0], read_integer(number, INT)) for number in members
        )
    if kind == LMQ_OFFSETS:
        light = read_table(root, LMQ_TABLE)
        yield from (OffsetPlace(light, key, key.partition("@")[0], 0) for key in light)
