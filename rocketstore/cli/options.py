"""Options and arguments that several commands share. What their callbacks need is imported when they run."""

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from datetime import UTC
from pathlib import Path
from typing import Any, Literal, NamedTuple

import click

from rocketstore.cli.columns import MESSAGES
from rocketstore.cli.completion import complete_groups, complete_queue_ids, complete_topics, complete_words
from rocketstore.cli.help_groups import GroupedCommand
from rocketstore.cli.other_words import find_format
from rocketstore.cli.text import (
    AFTER_STORE,
    BROKER_CONF,
    COMPACTED,
    GEOMETRY,
    ISO,
    LEFTOVERS,
    REMOTE_COPY_LIMIT,
    SAFE_CSV,
    TIER,
    TIERED,
    TYPED,
    ZONE,
)
from rocketstore.limits import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN
from rocketstore.text_values import (
    find_similar,
    find_time_zone,
    parse_integer,
    parse_share,
    parse_size,
    parse_time,
    snake_case,
    wrong_unit,
)

Command = Callable[..., Any]
crc_option = click.option(
    "--verify-crc/--no-verify-crc",
    default=True,
    show_default=True,
    help="Leave out a message whose body does not match its CRC. The exit status is 1 then.",
)
BODY_RULE = (
    'The body is in "body" if it is text of --charset, else in "bodyBase64". The other column is null. '
    'If the body cannot be decoded, both are null, and "bodyError" has the reason.'
)
SEVERAL_RULE = (
    "Give several stores, or a pattern in quotes, such as 'stores/*', to ask several brokers: the column broker "
    "has their names. A store that cannot be read hides no other; the exit status is then 1."
)
SAFE_CSV_RULE = "csv-safe: csv for spreadsheets, with an apostrophe before text that would run as a formula."


class PathType(click.Path):
    """The type of a path argument. With ``remote`` it also accepts the URI of a remote store."""

    def __init__(self, *, remote: bool) -> None:
        super().__init__()
        self.remote = remote

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":  # probably a shell variable that is not set; pathlib would read it as the current directory
            self.fail("the path is empty: use . for the current directory", param, ctx)
        if value == "-" or (ctx is not None and ctx.resilient_parsing):  # standard input or output; completion
            return Path(value)
        from rocketstore.disk.storage import local_path, to_path

        try:
            path = (to_path if self.remote else local_path)(super().convert(value, param, ctx))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if ctx is not None:
            ctx.meta.setdefault(TYPED, {})[path] = value
        return path


class FormatChoice(click.Choice):  # type: ignore[type-arg]  # generic since click 8.2
    """A choice of formats, whose error names the format that another word probably means."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            meant = find_format(str(value), list(self.choices))
            hint = "" if meant is None else f" Did you mean {meant!r}?"
            raise click.BadParameter(f"{error.message}{hint}", ctx, param) from None


def number(least: int, most: int) -> Callable[[Any], int]:
    """Return an integer type that names its range in the error message but not in the help, unlike click.IntRange."""

    def n(value: str | int) -> int:  # the help shows the name of this function
        try:
            found = parse_integer(str(value))
        except ValueError:
            raise click.BadParameter(f"{value!r} is no integer: give a number from {least} to {most}") from None
        if not least <= found <= most:
            raise click.BadParameter(f"{value} is not from {least} to {most}")
        return found

    return n


def share(text: str) -> float:
    """Return a part of all. Raises: click.BadParameter."""
    try:
        return parse_share(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def refusing(check: Callable[[Any], object]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return an option callback that reports the ValueError of ``check`` as wrong usage."""

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            if value is not None:
                check(value)
        except ValueError as error:
            raise click.UsageError(str(error), ctx) from None
        return value

    return callback


def compat_option(text: str) -> Callable[[Command], Command]:
    """Return the option --compat, a RocketMQ release. Parameters: text: the help text."""

    def check(text: str) -> None:
        from rocketstore.compat import Compat

        Compat.of(text)

    return click.option("--compat", metavar="RELEASE", callback=refusing(check), help=text)


PATH, STORE = PathType(remote=False), PathType(remote=True)
OFFSET = number(0, LONG_MAX)
QUEUE_ID = number(INT_MIN, INT_MAX)
QUEUE_OFFSET = number(LONG_MIN, LONG_MAX)
COUNT, COUNT_OR_NONE = number(1, INT_MAX), number(0, INT_MAX)


class CommandOfOffsets(GroupedCommand):
    """A command with an argument that may be a negative number, which click would read as an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.ignore_unknown_options = any(re.fullmatch("-[0-9]+", arg) for arg in args)
        return super().parse_args(ctx, args)


def with_all(command: Command, *decorators: Callable[[Command], Command]) -> Command:
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def once(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> str | None:
    if len(values) > 1:
        raise click.BadParameter("give it only once", ctx, param)
    return values[0] if values else None


def once_option(name: str, **settings: Any) -> Callable[[Command], Command]:
    """Return an option that may be given only once. Click itself would silently use the last value."""
    return click.option(name, multiple=True, callback=once, **settings)


# ---- columns and rows ------------------------------------------------------------------------------------


def columns_option(*columns: str) -> Callable[[Command], Command]:
    """Return the option ``--columns``. The command gets a tuple of some of these names, or None.

    A user may also write a name in snake_case, as in Python.
    """

    def parse(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...] | None:
        if not texts:
            return None
        by_any_name = {snake_case(name): name for name in columns}
        by_any_name |= {name: name for name in columns}
        names = list(filter(None, map(str.strip, ",".join(texts).split(","))))
        for name in names:
            if name not in by_any_name:
                similar = find_similar(name, by_any_name)
                hint = f"did you mean {similar!r}?" if similar else f"the columns are {', '.join(columns)}"
                raise click.BadParameter(f"there is no column {name!r}: {hint}", ctx, param)
        if not names:
            raise click.BadParameter(f"the columns are {', '.join(columns)}", ctx, param)
        return tuple(dict.fromkeys(by_any_name[name] for name in names))

    example = ",".join(columns[:2])
    return click.option(
        "--columns",
        metavar="A,B",
        multiple=True,
        callback=parse,
        shell_complete=complete_words(columns),
        help=f"Only these columns, in this order, such as {example}. May be repeated.",
    )


def full_option(command: Command) -> Command:
    """Add ``--full``."""
    text = "Show all columns and complete values in a table, also if lines get longer than those of the terminal."
    return click.option("--full", is_flag=True, help=text)(command)


def rows_options(
    *columns: str, has_limit: bool = True, has_zone: bool = True, has_broker: bool = False
) -> Callable[[Command], Command]:
    """Return ``--columns``, ``--full``, ``--limit`` and ``--format``. The command gets them as ``view``, a RowsView.

    Parameters: columns: of all lists that the command may show. has_limit: False for a command that changes a store,
    since a user could take ``--limit`` for a limit of the changes. has_zone: False for a command with another ``--tz``.
    has_broker: whether rows have the column ``broker`` if the command asks several stores.
    """

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_view(
            *args: Any,
            output_format: str | None,
            columns: tuple[str, ...] | None,
            full: bool,
            limit: int | None = None,
            **options: Any,
        ) -> Any:
            from rocketstore.cli.formats import RowsView

            return command(*args, view=RowsView(output_format, columns, full, limit), **options)

        limit_option = click.option("--limit", type=COUNT, help="Largest number of rows to show.")
        limits = [limit_option] if has_limit else []
        zone = [zone_options] if has_zone else [iso_option]
        names = (*columns, "broker") if has_broker else columns
        return with_all(with_view, columns_option(*names), full_option, *limits, format_option, *zone)

    return decorate


def fail_if_option(*columns: str) -> Callable[[Command], Command]:
    """Return the option ``--fail-if``. The command gets a tuple of Condition.

    Parameters: columns: of numbers, in the rows and sums of the command.
    """

    def parse(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> tuple[Any, ...]:
        from rocketstore.cli.conditions import parse_condition

        try:
            return tuple(parse_condition(text, columns) for text in texts)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    text = f"Exit with status 3 if a row or a sum meets this, such as '{columns[0]} > 1000'. May be repeated."
    return click.option("--fail-if", multiple=True, metavar="CONDITION", callback=parse, help=text)


format_option = click.option(
    "--format",
    "output_format",
    type=FormatChoice(["table", "json", "csv", SAFE_CSV]),
    help=f"json: one object a line; csv: lists and maps are written as JSON; {SAFE_CSV_RULE}  "
    "[default: table on a terminal, else json]",
)


# ---- columns of messages --------------------------------------------------------------------------------


def containers_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--containers``. Without it, a command shows the messages of an inner batch."""
    text = "Show the record of an inner batch as one message, not the messages in it."
    return click.option("--containers", is_flag=True, help=text)(command)


message_columns_option = columns_option(*MESSAGES)
messages_columns_option = columns_option(*MESSAGES, "broker")  # of a command that asks several stores


def parse_charset(ctx: click.Context, param: click.Parameter, name: str | None) -> str:
    """Return the name that Python gives to a charset."""
    if name is None:
        return "utf-8"
    from rocketstore.messages.body_text import find_charset

    try:
        return find_charset(name)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


charset_option = click.option(
    "--charset",
    metavar="NAME",
    callback=parse_charset,
    help='The charset of the bodies, such as gbk: of "body" where it is text, body_text and body_json.  '
    "[default: utf-8]",
)


def decode_options(command: Command) -> Command:
    """Add ``--json-body`` and ``--decode``. The command gets ``decode``, the name of a decoder, or None."""

    @functools.wraps(command)
    def with_decode(*args: Any, json_body: bool, decode: str | None, **options: Any) -> Any:
        if json_body and decode not in (None, "json"):
            raise click.UsageError("--json-body and --decode: give only one of them")
        return command(*args, decode="json" if json_body else decode, **options)

    return with_all(
        with_decode,
        click.option(
            "--json-body",
            is_flag=True,
            help="Show bodies of JSON as JSON, so that jq reads their fields: .body.amount. As --decode json.",
        ),
        once_option(
            "--decode",
            metavar="HOW",
            help="Show bodies decoded: json, text, hex, protobuf:FILE.desc:TYPE, MODULE:FUNCTION of Python, or a "
            "plug-in. A body that cannot be decoded is in bodyBase64, and bodyError says why.",
        ),
    )


template_option = once_option(
    "--template",
    metavar="TEXT",
    help="Write a line for each message, such as '{storeTime} {keys} {body}'. A field is a column, storeTime, bornTime "
    "or property.NAME; {topic:20} has a width.",
)
raw_option = click.option("--raw", is_flag=True, help="Write the bytes of the body of the only message.")


def view_options(*, has_broker: bool = False) -> Callable[[Command], Command]:
    """Return the options of how messages are shown. The command gets ``view``, a MessageView.

    Parameters: has_broker: as for ``rows_options``.
    """

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_view(
            *args: Any,
            columns: tuple[str, ...] | None,
            charset: str,
            decode: str | None,
            full: bool,
            containers: bool,
            template: str | None,
            raw: bool,
            **options: Any,
        ) -> Any:
            from rocketstore.cli.view.messages import MessageView

            decoder = None
            if decode is not None:
                from rocketstore.cli.view.decoded import make_decoder

                decoder = make_decoder(decode, charset)
            view = MessageView(columns, full, containers, charset=charset, decoder=decoder)
            if raw or template is not None:
                view = view_of_lines(view, template, raw, options.get("output_format"))
            return command(*args, view=view, **options)

        names = messages_columns_option if has_broker else message_columns_option
        forms = template_option, raw_option
        bodies = charset_option, decode_options
        return with_all(with_view, names, *forms, *bodies, full_option, containers_option, zone_options)

    return decorate


def view_of_lines(view: Any, template: str | None, is_raw: bool, output_format: str | None) -> Any:
    """Return the MessageView of ``--template`` or ``--raw``. Raises: UsageError for options beside them."""
    name = "--raw" if is_raw else "--template"
    others = {
        "--template": is_raw and template is not None,
        "--columns": view.columns is not None,
        "--format": output_format is not None,
        "--decode": is_raw and view.decoder is not None,
    }
    if given := [other for other, value in others.items() if value]:
        raise click.UsageError(f"{name} says what is written: give it without {given[0]}")
    if template is None:
        return view._replace(is_raw=True)
    from rocketstore.cli.view.template import parse_template

    try:
        parsed = parse_template(template)
    except ValueError as error:
        raise click.UsageError(f"--template: {error}") from None
    return view._replace(columns=parsed.columns, template=parsed)


# ---- time zones ------------------------------------------------------------------------------------------


def keep_zone(ctx: click.Context, param: click.Parameter, name: str | None) -> None:
    """Keep the time zone of ``--tz`` in the context."""
    if name is not None:
        try:
            ctx.meta[ZONE] = find_time_zone(name)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None


def keep_broker_zone(ctx: click.Context, param: click.Parameter, name: str | None) -> str | None:
    """Keep the time zone for the times that the command shows, and return its name for the times of the broker."""
    keep_zone(ctx, param, name)
    return name


iso_option = click.option(
    "--iso",
    is_flag=True,
    expose_value=False,
    callback=lambda ctx, param, value: ctx.meta.__setitem__(ISO, value),
    help="Write times in JSON and CSV as ISO 8601, not as epoch milliseconds.",
)


def zone_options(command: Command) -> Command:
    """Add ``--tz`` and ``--iso``, whose values are kept in the context."""
    zone = click.option(
        "--tz",
        metavar="NAME",
        is_eager=True,
        expose_value=False,
        callback=keep_zone,
        help="Time zone of the times that are shown, and of those that name no zone, such as Asia/Shanghai or local."
        "  [default: UTC]",
    )
    return zone(iso_option(command))


# ---- sizes and times -------------------------------------------------------------------------------------


def convert_text(parse: Callable[[str], int]) -> Callable[[click.Context, click.Parameter, str | None], int | None]:
    """Return an option callback that converts a text, and reports the ValueError of ``parse`` as wrong usage."""

    def callback(ctx: click.Context, param: click.Parameter, text: str | None) -> int | None:
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return callback


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


def parse_store_time(text: str) -> int:
    """Return a time as epoch milliseconds. Raises: ValueError, also for a time that the package would refuse as int."""
    time = parse_time(text, click.get_current_context().meta.get(ZONE, UTC))
    if wrong_unit(time) is not None:
        raise ValueError(f"{text!r} is a time of 1970: give 0 for the time before all messages")
    return time


def time_option(name: str, meaning: str, **settings: Any) -> Callable[[Command], Command]:
    """Return an option for a time. The command gets epoch milliseconds, or None."""
    return click.option(name, metavar="TIME", callback=convert_text(parse_store_time), help=meaning, **settings)


def time_options(command: Command) -> Command:
    """Add ``--since`` and ``--until``."""
    since = (
        "Only messages stored at this time or later: ISO 8601; epoch ms; 1h or '1 hour ago'; 10:00; today, or "
        "'yesterday 14:00'. The zone is that of --tz."
    )
    until = "Only messages stored before this time."
    return with_all(command, time_option("--since", since), time_option("--until", until))


exact_times_option = click.option(
    "--exact-times",
    is_flag=True,
    help="Read every file of the log. Without it, files are skipped if their first messages, and those of their "
    "neighbours, are more than a day before or after the requested times.",
)


# ---- stores and index files ------------------------------------------------------------------------------


def open_argument(ctx: click.Context, param: click.Parameter, path: Path) -> Any:
    """Return a store, open; the path itself while a shell completes a word."""
    if ctx.resilient_parsing:
        return path
    from rocketstore.cli.settings import open_store

    return ctx.with_resource(open_store(ctx, path))


def open_arguments(ctx: click.Context, param: click.Parameter, value: Any, *, words: Sequence[str] = ()) -> Any:
    """Return stores, open, as AskedStores; the paths themselves while a shell completes a word.

    Parameters: words: as for ``stores_argument``.
    """
    if ctx.resilient_parsing:
        return value
    from rocketstore.cli.several import open_stores

    return open_stores(ctx, without_words(ctx, value, words) if isinstance(value, tuple) else [value])


def open_arguments_if_stores(
    ctx: click.Context, param: click.Parameter, value: tuple[Path, ...], *, words: Sequence[str] = ()
) -> Any:
    """Return stores, open, as AskedStores; the path itself if it is no store. Parameters: as of ``open_arguments``."""
    if ctx.resilient_parsing:
        return value
    from rocketstore.brokers.find_stores import has_pattern
    from rocketstore.cli.settings import begin_command, reader_of
    from rocketstore.cli.several import one_store, open_stores
    from rocketstore.errors import StoreError

    paths = without_words(ctx, value, words)
    if len(paths) > 1 or has_pattern(paths):
        return open_stores(ctx, paths)
    try:
        survey = begin_command(ctx, paths[0])
    except (StoreError, NotADirectoryError):  # the command itself raises it, after all options were checked
        return paths[0]
    return one_store(ctx.with_resource(reader_of(ctx, survey))) if survey.has_store else paths[0]


def without_words(ctx: click.Context, paths: Sequence[Any], kinds: Sequence[str]) -> Sequence[Any]:
    """Return the paths of stores, and keep the words that are no paths in the context, for ``guessing``.

    Parameters: kinds: the options that words may mean; none if all arguments are paths.
    """
    if not kinds:
        return paths
    from rocketstore.cli.guesses import split_words

    stores, ctx.meta[AFTER_STORE] = split_words(paths, ctx.meta[TYPED])
    return stores


def guessing(command: Command, argument: str, kinds: Sequence[str]) -> Command:
    """Return a command that reads words after STORE as values of options, and patterns of topics as topics.

    Parameters: argument: the name of the stores. kinds: as for ``stores_argument``.
    """

    @functools.wraps(command)
    def with_guesses(*args: Any, **options: Any) -> Any:
        from rocketstore.cli.guesses import apply_words, expand_topics

        if words := click.get_current_context().meta.get(AFTER_STORE):
            options[argument] = apply_words(options[argument], words, kinds, options)
        if isinstance(options.get("topic"), tuple):
            options["topic"] = expand_topics(options[argument], options["topic"])
        return command(*args, **options)

    return with_guesses


def keep_as(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Return a callback that keeps the value of an option in the context, under a name."""

    def keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        ctx.meta[name] = value

    return keep


broker_conf_option = click.option(
    "--broker-conf",
    type=PATH,
    is_eager=True,
    expose_value=False,
    callback=keep_as(BROKER_CONF),
    help="The broker's properties file. It is needed for directories elsewhere and for sizes that files do not show.",
)


leftovers_option = click.option(
    "--leftovers",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=keep_as(LEFTOVERS),
    help="Also read old records and units after the ends of log and queues, which a broker cut off but did not erase.",
)


tiered_option = click.option(
    "--tiered",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=keep_as(TIERED),
    help="Also read messages that are only in tiered storage. The broker's properties file or --tier gives its path.",
)
tier_option = click.option(
    "--tier",
    metavar="PATH",
    is_eager=True,
    expose_value=False,
    callback=keep_as(TIER),
    help="Also read messages that are only in tiered storage, which is in this directory, or at this URI.",
)


def keep_remote_copy_limit(ctx: click.Context, param: click.Parameter, text: str | None) -> None:
    """Keep the value of ``--remote-copy-limit`` in the context."""
    ctx.meta[REMOTE_COPY_LIMIT] = convert_text(parse_size)(ctx, param, text)


remote_copy_limit_option = click.option(
    "--remote-copy-limit",
    metavar="SIZE",
    is_eager=True,
    expose_value=False,
    callback=keep_remote_copy_limit,
    help="Copy at most this much of a RocksDB of a remote STORE to a temporary directory.  [default: 1G]",
)


tier_path_option = click.option(
    "--tier",
    "tier",
    metavar="PATH",
    help="The directory of tiered storage, or its URI. The broker's properties file may give it, too.",
)


compacted_option = click.option(
    "--compacted",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=keep_as(COMPACTED),
    help="Of compacted topics, show the messages that consumers get: the newest of each key.",
)


def tier_options(command: Command) -> Command:
    """Add ``--tiered`` and ``--tier``."""
    return tiered_option(tier_option(command))


def deleted_option(text: str) -> Callable[[Command], Command]:
    """Return a decorator that adds ``--deleted``. Parameters: text: its help."""
    return click.option("--deleted", is_flag=True, help=text)


write_elsewhere_option = click.option(
    "--write-elsewhere",
    is_flag=True,
    help="Allow changes in directories of another store. The command also takes the lock of that store.",
)


allow_unreadable_option = click.option(
    "--allow-unreadable",
    is_flag=True,
    help="Write also if STORE has messages that the RocketMQ release cannot read.",
)


def store_argument(command: Command) -> Command:
    """Add STORE and the options with which it is opened. The command gets STORE as an open MessageStore."""
    argument = click.argument("store", type=STORE, callback=open_argument)
    return with_all(command, argument, broker_conf_option, leftovers_option, remote_copy_limit_option)


def stores_argument(*, nargs: int = -1, words: Sequence[str] = ()) -> Callable[[Command], Command]:
    """Return ``store_argument`` for a command that asks several stores, and gets them as AskedStores.

    Parameters: nargs: 1 for a command whose next argument may be left out. Then only a pattern names several stores.
    words: the options, without hyphens, that a word after STORE may mean if it is no path: topic, group, key, id.
    """

    def decorate(command: Command) -> Command:
        metavar = "STORE" if nargs == 1 else "STORE..."
        callback = functools.partial(open_arguments, words=words)
        settings: dict[str, Any] = {"nargs": nargs, "required": True, "metavar": metavar, "callback": callback}
        argument = click.argument("stores", type=STORE, **settings)
        rule = SEVERAL_RULE if nargs != 1 else SEVERAL_RULE.replace("several stores, or ", "")
        command.__doc__ = f"{inspect.cleandoc(command.__doc__ or '')}\n\n{rule}"
        options = argument, broker_conf_option, leftovers_option, remote_copy_limit_option
        return with_all(guessing(command, "stores", words), *options)

    return decorate


def stores_or_index_argument(*, words: Sequence[str] = ()) -> Callable[[Command], Command]:
    """Return a decorator that adds PATH and the options with which a store is opened.

    The command gets AskedStores, or else a Path. Parameters: words: as for ``stores_argument``.
    """

    def decorate(command: Command) -> Command:
        callback = functools.partial(open_arguments_if_stores, words=words)
        argument = click.argument("path", type=STORE, nargs=-1, required=True, callback=callback)
        command.__doc__ = f"{inspect.cleandoc(command.__doc__ or '')}\n\n{SEVERAL_RULE}"
        options = argument, broker_conf_option, leftovers_option, remote_copy_limit_option
        return with_all(guessing(command, "path", words), *options)

    return decorate


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


# ---- which messages --------------------------------------------------------------------------------------


def parse_tags(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Return the tags of a subscription expression, separated by ||. Return None for all tags. Source: FilterAPI."""
    if not values or "" in values or "*" in map(str.strip, values):
        return None
    tags = dict.fromkeys(tag for value in values for part in value.split("||") if (tag := part.strip()))
    if not tags:
        hint = "write 'a || b' for two tags, '*' for all messages"
        raise click.BadParameter(f"{values[0]!r} has no tag: {hint}", ctx, param)
    return "||".join(tags)


class UnconsumedQuestion(NamedTuple):
    """The messages that a consumer group still gets: the arguments of ``MessageStore.unconsumed``."""

    group: str
    subscribe: tuple[str, ...] | None
    start: Literal["first", "last"]


def unconsumed_options(command: Command) -> Command:
    """Add ``--unconsumed``, ``--group``, ``--subscribe`` and ``--from``. The command gets them as ``unconsumed``.

    ``unconsumed`` is None without --unconsumed.
    """

    @functools.wraps(command)
    def with_unconsumed(
        *args: Any,
        unconsumed: bool,
        group: str | None,
        subscribe: tuple[str, ...],
        start: Literal["first", "last"] | None,
        **options: Any,
    ) -> Any:
        if unconsumed != (group is not None):
            raise click.UsageError("--unconsumed and --group: give both")
        if (subscribe or start is not None) and not unconsumed:
            raise click.UsageError("--subscribe and --from need --unconsumed")
        asked = None if group is None else UnconsumedQuestion(group, subscribe or None, start or "first")
        return command(*args, unconsumed=asked, **options)

    return with_all(
        with_unconsumed,
        click.option("--unconsumed", is_flag=True, help="Only messages that the group of --group still gets."),
        click.option("--group", shell_complete=complete_groups, help="The consumer group of --unconsumed."),
        click.option(
            "--subscribe",
            multiple=True,
            metavar="TOPIC[=TAGS]",
            help="A topic that the group reads, with the tags that it wants: 'Orders=paid || sent'. May be repeated.  "
            "[default: the topics in which it has offsets]",
        ),
        click.option(
            "--from",
            "start",
            type=click.Choice(["first", "last"]),
            help="Where the group begins in a queue without an offset.  [default: first]",
        ),
    )


def tags_option(meaning: str) -> Callable[[Command], Command]:
    """Return the option ``--tag``. All commands read it as RocketMQ reads the expression of a subscription."""
    return click.option("--tag", metavar="TAGS", multiple=True, callback=parse_tags, help=meaning)


def filter_options(command: Command) -> Command:
    """Add ``--where``, ``--grep`` and ``--regex``. The command gets them as ``message_filter``, a MessageFilter."""

    @functools.wraps(command)
    def with_filter(
        *args: Any, where: str | None, grep: tuple[str, ...], regex: tuple[str, ...], **options: Any
    ) -> Any:
        from rocketstore.cli.view.filters import make_filter

        return command(*args, message_filter=make_filter(where, grep, regex), **options)

    return with_all(
        with_filter,
        once_option(
            "--where",
            metavar="CONDITION",
            help="Only messages that meet a condition of SQL, such as \"amount > 100 AND tags = 'paid'\". A name is a "
            "column, a property, or a field of a JSON body. Needs DuckDB.",
        ),
        click.option(
            "--grep",
            multiple=True,
            metavar="TEXT",
            help="Only messages whose body contains this text, as it is. May be repeated: all of them.",
        ),
        click.option(
            "--regex",
            multiple=True,
            metavar="PATTERN",
            help="Only messages in whose body this regular expression of Python is found. May be repeated.",
        ),
    )


def selection_options(command: Command) -> Command:
    """Add the options that select messages. ``scan_conditions`` converts their values."""
    return with_all(
        command,
        click.option(
            "--topic",
            multiple=True,
            shell_complete=complete_topics,
            help="Only messages of this topic. May be repeated.",
        ),
        click.option(
            "--queue",
            "queue_ids",
            type=QUEUE_ID,
            multiple=True,
            shell_complete=complete_queue_ids,
            help="Only this queue id. May be repeated.",
        ),
        tags_option('Only messages with one of these tags: "a || b".'),
        click.option("--key", multiple=True, help="Only messages of this key or unique key. May be repeated."),
        time_options,
        click.option(
            "--sample",
            metavar="1%",
            type=share,
            help="Only this part of the messages: always the same ones, and without reading the others.",
        ),
        click.option("--begin-offset", type=OFFSET, help="Only messages at this physical offset or later."),
        click.option("--end-offset", type=OFFSET, help="Only messages before this physical offset."),
        click.option(
            "--verify-crc/--no-verify-crc",
            default=None,
            help="Compare each body with its CRC. Default: if the bodies are shown.",
        ),
    )
