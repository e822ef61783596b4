"""Options and arguments that several commands have."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

import rocketstore
from rocketstore.config import StoreConfig
from rocketstore.errors import StoreError
from rocketstore.limits import INT_MAX, INT_MIN, LONG_MAX
from rocketstore.storage import local_path, to_path
from rocketstore.store.message_store import MessageStore

__all__ = ["COUNT", "OFFSET", "PATH", "QUEUE_ID", "STORE", "geometry_options", "scan_conditions"]
__all__ += ["selection_options", "store_argument", "store_or_index_argument"]
__all__ += ["time_option", "time_options", "time_range", "utc_text"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BROKER_CONF = "rocketstore.broker_conf"


class StorePath(click.Path):
    """A path, or where ``remote`` a URI too. What is remote is refused elsewhere before anything is done."""

    def __init__(self, *, remote: bool) -> None:
        super().__init__()
        self.remote = remote

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return (to_path if self.remote else local_path)(super().convert(value, param, ctx))
        except ValueError as error:
            self.fail(str(error), param, ctx)


PATH, STORE = StorePath(remote=False), StorePath(remote=True)
OFFSET = click.IntRange(0, LONG_MAX)
QUEUE_ID = click.IntRange(INT_MIN, INT_MAX)
COUNT = click.IntRange(1, INT_MAX)

Command = Callable[..., Any]


def with_all(command: Command, *decorators: Callable[[Command], Command]) -> Command:
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


# ---- times -------------------------------------------------------------------------------------------------


def parse_time(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Turn an option's time into epoch milliseconds."""
    if value is None:
        return None
    if re.fullmatch(r"-?[0-9]{1,19}", value) and abs(int(value)) <= LONG_MAX:
        return int(value)
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither an ISO 8601 time nor epoch milliseconds") from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - EPOCH) // timedelta(milliseconds=1)


def time_option(name: str, meaning: str, **settings: Any) -> Callable[[Command], Command]:
    """Make an option that a command gets as epoch milliseconds, or None."""
    return click.option(name, metavar="TIME", callback=parse_time, help=meaning, **settings)


def time_options(command: Command) -> Command:
    """Add ``--since`` and ``--until``."""
    since = "Stored at this time or later: ISO 8601, UTC if it names no zone, or epoch ms."
    return with_all(command, time_option("--since", since), time_option("--until", "Stored before this time."))


def time_range(since: int | None, until: int | None) -> tuple[int | None, int | None]:
    """Turn --since and --until into the first and the last millisecond. Raises UsageError if there is none."""
    if since is not None and until is not None and until <= since:
        raise click.UsageError("--until must be after --since")
    return since, None if until is None else until - 1


def utc_text(timestamp: int) -> str | None:
    """Write epoch milliseconds as ISO 8601 in UTC; None for 0, which says that there is no time yet."""
    if timestamp == 0:
        return None
    try:
        time = EPOCH + timedelta(milliseconds=timestamp)
    except OverflowError:
        return f"{timestamp} ms"
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# ---- stores and index files --------------------------------------------------------------------------------


def read_broker_conf(ctx: click.Context, param: click.Parameter, path: Path | None) -> None:
    ctx.meta[BROKER_CONF] = None if path is None else StoreConfig.from_broker_conf(path)


def open_store(ctx: click.Context, param: click.Parameter, path: Path) -> MessageStore:
    return ctx.with_resource(rocketstore.open(path, config=ctx.meta[BROKER_CONF]))


def open_store_if_any(ctx: click.Context, param: click.Parameter, path: Path) -> MessageStore | Path:
    try:
        return open_store(ctx, param, path)
    except (StoreError, NotADirectoryError):
        return path


broker_conf_option = click.option(
    "--broker-conf", type=PATH, is_eager=True, expose_value=False, callback=read_broker_conf,
    help="The broker's properties file, if it gives other directories, or sizes that files do not show.",
)


def store_argument(command: Command) -> Command:
    """Add STORE, which a command gets as an open MessageStore, and ``--broker-conf``."""
    return with_all(command, click.argument("store", type=STORE, callback=open_store), broker_conf_option)


def store_or_index_argument(command: Command) -> Command:
    """Add PATH, which a command gets as an open MessageStore, or as a Path if no store is there."""
    return with_all(command, click.argument("path", type=STORE, callback=open_store_if_any), broker_conf_option)


def geometry_options(command: Command) -> Command:
    """Add ``--slots`` and ``--items``, which a command gets as ``hash_slot_num`` and ``index_num``."""
    def option(name: str, parameter: str, least: int, meaning: str) -> Callable[[Command], Command]:
        number = click.IntRange(least, INT_MAX)
        return click.option(name, parameter, type=number, metavar="N", callback=both_or_none, help=meaning)

    return with_all(
        command,
        option("--slots", "hash_slot_num", 1, "The broker's maxHashSlotNum, for index files that do not show it."),
        option("--items", "index_num", 2, "The broker's maxIndexNum: items in a file, and one."),
    )


def both_or_none(ctx: click.Context, param: click.Parameter, value: int | None) -> int | None:
    """Refuse one half of a geometry, when the second half has been read."""
    other = {"index_num": "hash_slot_num", "hash_slot_num": "index_num"}[param.name or ""]
    if other in ctx.params and (ctx.params[other] is None) != (value is None):
        raise click.UsageError("--slots and --items: give both or none", ctx)
    return value


# ---- which messages ----------------------------------------------------------------------------------------


def selection_options(command: Command) -> Command:
    """Add what ``scan_conditions`` takes."""
    return with_all(
        command,
        click.option("--topic", "topics", multiple=True, help="Of this topic; may be given again."),
        click.option("--queue", "queue_ids", type=QUEUE_ID, multiple=True, help="Of this queue id; more may be given."),
        click.option("--tag", "tags", metavar="TAGS", help='With one of these tags: "a || b".'),
        click.option("--key", "keys", multiple=True, help="With this key, or unique key; may be given again."),
        time_options,
        click.option("--begin-offset", type=OFFSET, help="At this physical offset or later."),
        click.option("--end-offset", type=OFFSET, help="Before this physical offset."),
        click.option("--verify-crc", is_flag=True, help="Compare bodies with their CRC."),
    )


def scan_conditions(since: int | None, until: int | None, **options: Any) -> dict[str, Any]:
    """Make the arguments of CommitLog.scan of options."""
    begin, end = time_range(since, until)
    conditions = {name: None if value == () else value for name, value in options.items()}
    return conditions | {"begin_timestamp": begin, "end_timestamp": end}
