"""The settings and conditions that the options of a command give."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from rocketstore.cli.text import BROKER_CONF, COMPACTED, LEFTOVERS, REMOTE_COPY_LIMIT, TIER, TIERED
from rocketstore.compat import DEFAULT_COMPAT
from rocketstore.config import StoreConfig
from rocketstore.disk.store_path import StorePath
from rocketstore.index.geometry import IndexGeometry
from rocketstore.queue.queue_source import StoredQueue
from rocketstore.store.message_store import MessageStore
from rocketstore.survey.requirements import begin_entry
from rocketstore.survey.sizes import saved_config
from rocketstore.survey.survey import Survey, survey_store


def broker_config(ctx: click.Context, compat: str | None = None) -> StoreConfig | None:
    """Read the file of --broker-conf as a broker reads it. Return None if the option was not given.

    Parameters: compat: the RocketMQ release of the broker; None for the newest. Raises: OSError, ValueError.
    """
    path = ctx.meta.get(BROKER_CONF)
    return None if path is None else StoreConfig.from_broker_conf(path, compat=compat or DEFAULT_COMPAT)


def config_with(config: StoreConfig | None, store: Path, **settings: Any) -> StoreConfig | None:
    """Return a configuration with the settings that an option gave. Without such a setting, return ``config`` itself.

    Parameters: config: None stands for the settings that the store was last written with. settings: fields of
    StoreConfig; a setting that is None or False was not given.
    """
    given = {name: value for name, value in settings.items() if value}
    if not given:
        return config
    if config is None:  # the paths in a copy of a store lead to the original: they must be given
        config = saved_config(survey_store(store).places)
    return replace(config, **given)


def open_store(ctx: click.Context, path: StorePath | str) -> MessageStore:
    """Open the store of a command with the settings that its options give."""
    return reader_of(ctx, begin_command(ctx, path))


def reader_of(ctx: click.Context, survey: Survey) -> MessageStore:
    """Return the reader of a store that a command found."""
    tiered = ctx.meta.get(TIER) is not None or ctx.meta.get(TIERED, False)
    leftovers, compacted = ctx.meta.get(LEFTOVERS, False), ctx.meta.get(COMPACTED, False)
    return MessageStore.of_survey(survey, leftovers=leftovers, tiered=tiered, compacted=compacted)


def begin_command(ctx: click.Context, path: StorePath | str) -> Survey:
    """Begin a command with the settings that its options give. Its name is a row in ENTRIES."""
    config = broker_config(ctx)
    geometry = ctx.params.get("geometry")
    if geometry is not None:
        slots, items = geometry
        config = replace(config or StoreConfig(), max_hash_slot_num=slots, max_index_num=items)
    limit = ctx.meta.get(REMOTE_COPY_LIMIT)
    if limit is not None:
        config = replace(config or saved_config(survey_store(path).places), remote_copy_limit=limit)
    tier = ctx.meta.get(TIER)
    if tier is not None:
        config = replace(config or StoreConfig(), tiered_store_file_path=tier)
    return begin_entry(str(ctx.command.name), path, config)


def geometry_settings(geometry: IndexGeometry | None) -> dict[str, Any]:
    """Return the fields of StoreConfig for the values of ``geometry_options``."""
    if geometry is None:
        return {}
    return {"max_hash_slot_num": geometry.hash_slot_num, "max_index_num": geometry.index_num}


def time_range(since: int | None, until: int | None) -> tuple[int | None, int | None]:
    """Return both times. Raises UsageError if --until is not after --since."""
    if since is not None and until is not None and until <= since:
        raise click.UsageError("--until must be after --since")
    return since, until


def scan_conditions(since: int | None, until: int | None, **options: Any) -> dict[str, Any]:
    """Convert the values of ``selection_options`` to the arguments of CommitLog.scan."""
    begin, end = time_range(since, until)
    conditions = {name: None if value == () else value for name, value in options.items()}
    return conditions | {"since": begin, "until": end}


def refuse_places_in_log(conditions: dict[str, Any], *, follows: bool = False) -> None:
    """Raise UsageError if a command that reads tiered storage or compacted topics has options with a physical offset.

    Parameters: conditions: of the scan. follows: whether the command has --follow or --tail.
    """
    if follows or (conditions["begin_offset"], conditions["end_offset"]) != (None, None):
        text = "--tiered, --tier and --compacted read messages that have no place in the log"
        raise click.UsageError(f"{text}: give them without --follow, --tail and offsets")


def offset_from_end(queue: StoredQueue, queue_offset: int) -> int:
    """Return a queue offset. A negative number counts from the end of the queue: -1 is the last message."""
    return queue_offset if queue_offset >= 0 else max(queue.max_queue_offset + queue_offset, queue.min_queue_offset, 0)
