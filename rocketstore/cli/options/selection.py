"""Options that choose messages."""

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import click

from rocketstore.cli.completion import complete_groups, complete_queue_ids, complete_topics
from rocketstore.cli.options.basics import OFFSET, QUEUE_ID, Command, once_option, share, with_all
from rocketstore.cli.options.times import time_options

crc_option = click.option(
    "--verify-crc/--no-verify-crc",
    default=True,
    show_default=True,
    help="Leave out a message whose body does not match its CRC. The exit status is 1 then.",
)


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
