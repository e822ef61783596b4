"""Options and arguments that several commands have."""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

import rocketstore
from rocketstore.compat import DEFAULT_COMPAT, Compat
from rocketstore.config import StoreConfig
from rocketstore.disk.storage import local_path, to_path
from rocketstore.errors import StoreError, UnsupportedFormatError
from rocketstore.limits import INT_MAX, INT_MIN, LONG_MAX
from rocketstore.store.message_store import MessageStore

__all__ = ["COUNT", "OFFSET", "PATH", "QUEUE_ID", "STORE", "compat_option", "geometry_options", "once_option"]
__all__ += ["broker_config", "refusing", "scan_conditions", "selection_options", "store_argument"]
__all__ += ["store_or_index_argument", "tags_option", "time_option", "time_options", "time_range"]
__all__ += ["unknown_topics", "utc_text", "write_elsewhere_option"]

Command = Callable[..., Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BROKER_CONF = "rocketstore.broker_conf"
LEFTOVERS = "rocketstore.leftovers"


class StorePath(click.Path):
    """A path, or where ``remote`` a URI too. What is remote is refused elsewhere before anything is done."""

    def __init__(self, *, remote: bool) -> None:
        super().__init__()
        self.remote = remote

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":  # of a variable that is not set, and no name of the current directory
            self.fail("it is empty: . is the current directory", param, ctx)
        if value == "-":  # standard input or output
            return Path(value)
        try:
            return (to_path if self.remote else local_path)(super().convert(value, param, ctx))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def number(least: int, most: int) -> Callable[[Any], int]:
    """Make the type of a number whose range is told where it is left, and not in the help, as IntRange's is."""
    values = click.IntRange(least, most)

    def n(value: Any) -> int:  # the help has this name
        return int(values.convert(value, None, None))

    return n


def refusing(check: Callable[[Any], object]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Make the callback of an option whose value a function refuses with ValueError."""
    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            if value is not None:
                check(value)
        except ValueError as error:
            raise click.UsageError(str(error), ctx) from None
        return value

    return callback


def compat_option(text: str) -> Callable[[Command], Command]:
    """Give the option --compat, a release as ``compat``. Parameters: text: its help."""
    return click.option("--compat", metavar="RELEASE", callback=refusing(Compat.of), help=text)


PATH, STORE = StorePath(remote=False), StorePath(remote=True)
OFFSET = number(0, LONG_MAX)
QUEUE_ID = number(INT_MIN, INT_MAX)
COUNT = number(1, INT_MAX)


def with_all(command: Command, *decorators: Callable[[Command], Command]) -> Command:
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def once(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> str | None:
    if len(values) > 1:
        raise click.BadParameter("may be given once only", ctx, param)
    return values[0] if values else None


def once_option(name: str, **settings: Any) -> Callable[[Command], Command]:
    """Make an option that is refused the second time, where click would take the last."""
    return click.option(name, multiple=True, callback=once, **settings)


# ---- times -------------------------------------------------------------------------------------------------


def parse_time(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Turn an option's time into epoch milliseconds."""
    if value is None:
        return None
    if re.fullmatch("[0-9]{4}|[0-9]{10}", value):
        meant = "seconds" if len(value) == 10 else "a year"
        raise click.BadParameter(f"{value!r} looks like {meant}: give an ISO 8601 time or epoch milliseconds")
    is_number = re.fullmatch(r"-?[0-9]{1,19}", value) and abs(int(value)) <= LONG_MAX
    if is_number and len(value) != len("20261121"):
        return int(value)
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        if is_number:
            return int(value)
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


def keep_broker_conf(ctx: click.Context, param: click.Parameter, path: Path | None) -> None:
    ctx.meta[BROKER_CONF] = path


def broker_config(ctx: click.Context, compat: str | None = None) -> StoreConfig | None:
    """Read the file of --broker-conf as a broker reads it. Return None if the option was not given.

    Parameters: compat: the RocketMQ release of the broker; None for the newest. Raises: OSError, ValueError.
    """
    path = ctx.meta[BROKER_CONF]
    return None if path is None else StoreConfig.from_broker_conf(path, compat=compat or DEFAULT_COMPAT)


def open_store(ctx: click.Context, param: click.Parameter, path: Path) -> MessageStore:
    config = broker_config(ctx)
    slots, items = (ctx.params.get(name) for name in ("hash_slot_num", "index_num"))
    if slots is not None:
        config = replace(config or StoreConfig(), max_hash_slot_num=slots, max_index_num=items)
    return ctx.with_resource(rocketstore.open(path, config=config, leftovers=ctx.meta.get(LEFTOVERS, False)))


def open_store_if_any(ctx: click.Context, param: click.Parameter, path: Path) -> MessageStore | Path:
    try:
        return open_store(ctx, param, path)
    except (StoreError, NotADirectoryError):
        return path


broker_conf_option = click.option(
    "--broker-conf", type=PATH, is_eager=True, expose_value=False, callback=keep_broker_conf,
    help="The broker's properties file, if it gives other directories, or sizes that files do not show.",
)


def keep_leftovers(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    ctx.meta[LEFTOVERS] = value


leftovers_option = click.option(
    "--leftovers", is_flag=True, is_eager=True, expose_value=False, callback=keep_leftovers,
    help="Also read records and units that a broker cut off but left in the files, behind the ends of log and queues.",
)


write_elsewhere_option = click.option(
    "--write-elsewhere", is_flag=True,
    help="Also change directories that belong to another store. That store's lock is taken too.",
)


def store_argument(command: Command) -> Command:
    """Add STORE, which a command gets as an open MessageStore, ``--broker-conf`` and ``--leftovers``."""
    argument = click.argument("store", type=STORE, callback=open_store)
    return with_all(command, argument, broker_conf_option, leftovers_option)


def store_or_index_argument(command: Command) -> Command:
    """Add PATH, which a command gets as an open MessageStore, or as a Path if no store is there."""
    argument = click.argument("path", type=STORE, callback=open_store_if_any)
    return with_all(command, argument, broker_conf_option, leftovers_option)


def geometry_options(command: Command) -> Command:
    """Add ``--slots`` and ``--items``, which a command gets as ``hash_slot_num`` and ``index_num``."""
    def option(name: str, parameter: str, least: int, meaning: str) -> Callable[[Command], Command]:
        settings: dict[str, Any] = {"type": number(least, INT_MAX), "is_eager": True, "callback": both_or_none}
        return click.option(name, parameter, help=meaning, **settings)

    return with_all(
        command,
        option("--slots", "hash_slot_num", 1, "The broker's maxHashSlotNum, for index files that do not show it."),
        option("--items", "index_num", 2, "The broker's maxIndexNum: a file has one item less."),
    )


def both_or_none(ctx: click.Context, param: click.Parameter, value: int | None) -> int | None:
    """Refuse one half of a geometry, when the second half has been read."""
    other = {"index_num": "hash_slot_num", "hash_slot_num": "index_num"}[param.name or ""]
    if other in ctx.params and (ctx.params[other] is None) != (value is None):
        raise click.UsageError("--slots and --items: give both or none", ctx)
    return value


# ---- which messages ----------------------------------------------------------------------------------------


def parse_tags(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Turn a subscription's expression into tags with || between them; None for all. Source: FilterAPI."""
    if not values or "" in values or "*" in map(str.strip, values):
        return None
    tags = dict.fromkeys(tag for value in values for part in value.split("||") if (tag := part.strip()))
    if not tags:
        raise click.BadParameter(f"{values[0]!r} has no tag: 'a || b' has two, '*' is all", ctx, param)
    return "||".join(tags)


def tags_option(meaning: str) -> Callable[[Command], Command]:
    """Make ``--tag``, which all commands read as RocketMQ reads a subscription."""
    return click.option("--tag", "tags", metavar="TAGS", multiple=True, callback=parse_tags, help=meaning)


def unknown_topics(store: MessageStore, topics: Iterable[str]) -> list[str]:
    """Say of which topics a store has no queue, if its queues can be read."""
    try:
        known = {topic for topic, _ in store.queues()}
    except UnsupportedFormatError:
        return []
    unknown = [topic for topic in topics if topic not in known]
    return [f"{store.path}: there is no queue of topic {topic!r}: rocketstore ls shows all" for topic in unknown]


def selection_options(command: Command) -> Command:
    """Add what ``scan_conditions`` takes."""
    return with_all(
        command,
        click.option("--topic", "topics", multiple=True, help="Of this topic; may be given again."),
        click.option("--queue", "queue_ids", type=QUEUE_ID, multiple=True, help="Of this queue id; more may be given."),
        tags_option('With one of these tags: "a || b".'),
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
