"""BrokerConfig: the tables that a broker keeps in a store beside its messages. ``open_tables`` finds them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Self

from rocketstore.config import StoreConfig
from rocketstore.disk.store_path import StorePath
from rocketstore.made_by import made_by
from rocketstore.preview import show_fields
from rocketstore.state.broker_tables import BrokerTables, TableContents
from rocketstore.state.config_values import LMQ_OFFSETS, OFFSETS
from rocketstore.state.json_tables import JsonTables
from rocketstore.state.rocks_tables import RocksTables
from rocketstore.state.rocksdb import find_config_databases
from rocketstore.survey.places import AnyPlaces
from rocketstore.survey.survey import survey_store


@made_by("BrokerConfig.open(path)")
@dataclass(frozen=True, repr=False)
class BrokerConfig(TableContents):
    """The configuration of a broker; a part that cannot be read is empty, and ``problems`` says why.

    ``topics``, ``subscription_groups``: by name. ``consumer_offsets``: the queue offset to be consumed next, by group,
    topic and queue id. ``delay_offsets``: the one to be delivered next, by delay level; level 1 is queue 0 of
    SCHEDULE_TOPIC_XXXX. ``others``: by file name, the other files as parsed JSON. ``problems``: files and
    databases that cannot be read, or not completely. If topics, groups or offsets are in RocksDB, they are read from
    there by the extra ``rocksdb``, and their JSON files are older and are not used.
    ``offsets_file``: the name of the file or database that ``consumer_offsets`` was read from. A broker with enableLmq
    uses lmqConsumerOffset.json.

    Source: ConfigManager.load.

    Examples:
    >>> rocketstore.open("demo").broker_config.consumer_offsets
    {'billing': {'Orders': {0: 40}}}
    """

    def __repr__(self) -> str:
        return show_fields(self)

    @classmethod
    def open(cls, store_path_root_dir: str | os.PathLike[str] | StorePath, config: StoreConfig | None = None) -> Self:
        """Read the directory ``config`` of a store. If it is missing, all parts are empty.

        Parameters: config: the settings of the broker's properties file, which say whether the broker uses RocksDB and
        light queues; None to decide by the files that exist. Raises: FileNotFoundError without a store.
        """
        return cls.of_tables(open_tables(survey_store(store_path_root_dir, config).places, config))

    @classmethod
    def of_tables(cls, tables: BrokerTables) -> Self:
        """Read all tables. Raises: FileNotFoundError without a store."""
        return cls(**vars(tables.read_all()))


def open_tables(places: AnyPlaces, config: StoreConfig | None = None) -> JsonTables | RocksTables:
    """Find the tables of a broker. Nothing is kept open.

    Parameters: config: the settings of the broker's properties file, or None, as for ``BrokerConfig.open``.
    """
    files = open_json_tables(places, config)
    databases = find_config_databases(places.config, config)
    limit = (config or StoreConfig()).remote_copy_limit
    return RocksTables(files, databases, limit) if databases else files


def open_json_tables(places: AnyPlaces, config: StoreConfig | None = None) -> JsonTables:
    """Find the files of a broker's configuration, to check, repair or extend them. Parameters: as ``open_tables``."""
    databases = find_config_databases(places.config, config)
    return JsonTables(places.config, frozenset(databases), find_offsets_file(config))


def find_offsets_file(config: StoreConfig | None) -> str | None:
    """Return the name of the file in which the broker keeps the offsets of its consumers.

    A broker with enableLmq reads and writes only lmqConsumerOffset.json, any other broker only consumerOffset.json. If
    ``config`` is not from a broker's properties file and does not have enableLmq, the broker's file is the one that was
    changed last, and the result is None.

    Source: BrokerController.initializeMetadata, LmqConsumerOffsetManager.configFilePath.
    """
    if config is not None and config.enable_lmq:
        return LMQ_OFFSETS
    return OFFSETS if config is not None and config.is_of_broker_file else None
