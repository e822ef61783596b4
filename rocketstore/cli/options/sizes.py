"""Options for the sizes of files."""

from collections.abc import Callable
from typing import Any

import click

from rocketstore.cli.options.basics import Command, convert_text, number, with_all
from rocketstore.cli.text import GEOMETRY
from rocketstore.limits import INT_MAX
from rocketstore.text_values import parse_size


def size_option(
    name: str, least: int, most: int, *, field: str | None = None, **settings: Any
) -> Callable[[Command], Command]:
    """Return an option for a number of bytes from ``least`` to ``most``, such as 4096, 64M or 2G.

    Parameters: field: the name by which the command gets it; None for that of the option.
    """

    def parse(text: str) -> int:
        size = parse_size(text)
        if not least <= size <= most:
            raise ValueError(f"{text} is not from {least} to {most} bytes")
        return size

    names = [name] if field is None else [name, field]
    return click.option(*names, metavar="SIZE", callback=convert_text(parse), **settings)


def new_size_options(command: Command) -> Command:
    """Add options for the sizes of the files of a new store. The command gets them as fields of StoreConfig."""

    def size(name: str, field: str, meaning: str) -> Callable[[Command], Command]:
        return size_option(name, 1, INT_MAX, field=field, help=f"{meaning}  [default: that of STORE]")

    def count(name: str, field: str, least: int, meaning: str) -> Callable[[Command], Command]:
        return click.option(name, field, type=number(least, INT_MAX), help=f"{meaning}  [default: that of STORE]")

    return with_all(
        command,
        size("--log-file-size", "mapped_file_size_commit_log", "New size of the log's files."),
        size("--queue-file-size", "mapped_file_size_consume_queue", "New size of the files of queues."),
        size("--batch-file-size", "mapper_file_size_batch_consume_queue", "New size of the files of batch queues."),
        size("--ext-file-size", "mapped_file_size_consume_queue_ext", "New size of the ext files of queues."),
        count("--new-slots", "max_hash_slot_num", 1, "New maxHashSlotNum of index files."),
        count("--new-items", "max_index_num", 2, "New maxIndexNum of index files."),
    )


def geometry_options(command: Command) -> Command:
    """Add ``--slots`` and ``--items``. The command gets both as ``geometry``, an IndexGeometry or None."""

    def option(name: str, least: int, meaning: str) -> Callable[[Command], Command]:
        settings: dict[str, Any] = {"type": number(least, INT_MAX), "is_eager": True, "callback": keep_geometry}
        return click.option(name, expose_value=False, help=meaning, **settings)

    return with_all(
        command,
        option("--slots", 1, "The broker's maxHashSlotNum, if the index files do not show it."),
        option("--items", 2, "The broker's maxIndexNum. A file has room for one item less."),
    )


def keep_geometry(ctx: click.Context, param: click.Parameter, value: int | None) -> None:
    """Keep the value of one of the two options. Pass the geometry to the command when both values are known."""
    numbers = ctx.meta.setdefault(GEOMETRY, {})
    numbers[param.name] = value
    if len(numbers) == 2:
        slots, items = numbers["slots"], numbers["items"]
        if (slots is None) != (items is None):
            raise click.UsageError("--slots and --items: give both or none", ctx)
        ctx.params["geometry"] = None
        if slots is not None:
            from rocketstore.index.geometry import IndexGeometry

            ctx.params["geometry"] = IndexGeometry(slots, items)
