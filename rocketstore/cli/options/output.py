"""Options for how rows and messages are shown."""

import functools
from collections.abc import Callable
from typing import Any

import click

from rocketstore.cli.columns import MESSAGES
from rocketstore.cli.completion import complete_words
from rocketstore.cli.options.basics import COUNT, Command, FormatChoice, once_option, with_all
from rocketstore.cli.options.times import iso_option, zone_options
from rocketstore.cli.text import SAFE_CSV
from rocketstore.text_values import find_similar, snake_case

BODY_RULE = (
    'The body is in "body" if it is text of --charset, else in "bodyBase64". The other column is null. '
    'If the body cannot be decoded, both are null, and "bodyError" has the reason.'
)
SAFE_CSV_RULE = "csv-safe: csv for spreadsheets, with an apostrophe before text that would run as a formula."


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
