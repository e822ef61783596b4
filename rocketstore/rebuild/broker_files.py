"""Write what a broker needs besides queues and index to start on queues of files: configuration and checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rocketstore.disk.durable import make_directory, replace_file
from rocketstore.disk.small_file import read_small_file
from rocketstore.messages.topics import LIGHT_QUEUE_PREFIX
from rocketstore.rebuild.files import index_headers
from rocketstore.recovery.apply import set_last_record
from rocketstore.recovery.store_files import StoreFiles
from rocketstore.state.checkpoint import StoreCheckpoint
from rocketstore.state.config_json import encode_json
from rocketstore.state.config_values import LMQ_OFFSETS, OFFSET_TABLE, OFFSETS, TABLE_NAMES
from rocketstore.state.rocks_tables import RocksTables
from rocketstore.survey.broker_config import open_tables
from rocketstore.survey.formats import find_dledger
from rocketstore.survey.places import LocalPlaces
from rocketstore.survey.survey import Survey


def needs_broker_files(survey: Survey) -> bool:
    """Return whether a broker on queues in files needs other files of configuration than those of the store."""
    return survey.formats.is_dledger or not survey.formats.is_plain


def write_broker_files(survey: Survey, store: StoreFiles, last_phy_offset: int, places: LocalPlaces) -> None:
    """Write topics, groups, offsets and the checkpoint. The state of timers is left out: it belongs to their files.

    Parameters: last_phy_offset: of the last record, -1 without one. places: of the new directory, which has its index.
    Raises: OSError.
    """
    make_directory(places.config)
    for name, data in read_config_files(survey).items():
        replace_file(places.config_file(name), data)
    checkpoint = StoreCheckpoint(places.checkpoint)
    set_last_record(checkpoint, store.log, store.config.compat, last_phy_offset)
    ends = (header.end_timestamp for header in index_headers(places.index))
    checkpoint.index_msg_timestamp = max(ends, default=0)
    checkpoint.flush()


def read_config_files(survey: Survey) -> dict[str, bytes]:
    """Return the files of the configuration by name: those in RocksDB as JSON, the others as they are.

    A table of RocksDB that cannot be read is left out.
    """
    places, databases = survey.local_places, survey.formats.config_databases
    left_out = {places.saved_settings.name, places.timer_checkpoint.name, places.timer_metrics.name}
    found = {}
    for path in sorted(places.config.iterdir()) if places.config.is_dir() else ():
        name = path.name.removesuffix(".bak")
        if path.is_file() and name not in databases and name not in left_out:
            found[path.name] = read_small_file(path)
    tables = open_tables(places, survey.given)
    if isinstance(tables, RocksTables):
        for name in TABLE_NAMES:
            if name in tables.databases and (table := tables.read_json(name)) is not None:
                found[name] = encode_json(table)
                if name == OFFSETS and (light := split_light_offsets(table)) is not None:
                    found[LMQ_OFFSETS] = encode_json(light)
    return found


def split_light_offsets(table: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the offsets as a broker with enableLmq keeps them; None without an offset of a light queue.

    Source: LmqConsumerOffsetManager.
    """
    offsets = table[OFFSET_TABLE]
    light = {name: queues for name, queues in offsets.items() if name.startswith(LIGHT_QUEUE_PREFIX)}
    if not light:
        return None
    others = {name: queues for name, queues in offsets.items() if name not in light}
    return {OFFSET_TABLE: others, "lmqOffsetTable": {name: max(queues.values()) for name, queues in light.items()}}


def describe_start(survey: Survey, out: Path, written: frozenset[str]) -> list[str]:
    """Return notes on how to start a broker on the new directory, and on what the directory lacks.

    Parameters: written: the names of the written files of the configuration.
    """
    formats, places = survey.formats, survey.local_places
    lacking = [name for name in TABLE_NAMES if name in formats.config_databases and name not in written]
    notes = []
    if formats.is_dledger:
        dledger = find_dledger(places, survey.given or survey.sizes.settings)
        log = [str(dledger.index.parent) if dledger is not None else "its directory"]
        log += [str(path) for path in places.log_directories if path.is_dir()]
        notes.append(
            f"{out}: the log is still DLedger's. Stop the broker, move {' and '.join(log)} here, and start it with "
            f"storePathRootDir={out} and its other settings"
        )
    else:
        paths = ",".join(str(path) for path in places.log_directories)
        notes.append(
            f"{out}: the log is still in {paths}. Start the broker with storePathRootDir={out}, "
            f"storePathCommitLog={paths}, storeType=default and configManagerVersion=v1"
        )
    if places.timer_checkpoint.exists():
        notes.append(
            f"{places.root}: timers were not copied: if messages wait there (rocketstore pending), copy "
            f"{places.timer_wheel.name}, {places.timer_log.name}, config/{places.timer_checkpoint.name} and "
            f"config/{places.timer_metrics.name} before the broker starts"
        )
    if lacking:
        reasons = "; ".join(f"{problem.path}: {problem.what}" for problem in open_tables(places, survey.given).check())
        notes.append(f"{out}: config lacks {', '.join(lacking)}: {reasons}")
    return notes
