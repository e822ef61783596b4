"""The arguments that are stores or index files, and the options with which they are opened."""

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from rocketstore.cli.options.basics import PATH, STORE, Command, convert_text, keep_as, with_all
from rocketstore.cli.text import AFTER_STORE, BROKER_CONF, COMPACTED, LEFTOVERS, REMOTE_COPY_LIMIT, TIER, TIERED, TYPED
from rocketstore.text_values import parse_size

SEVERAL_RULE = (
    "Give several stores, or a pattern in quotes, such as 'stores/*', to ask several brokers: the column broker "
    "has their names. A store that cannot be read hides no other; the exit status is then 1."
)


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


def kept_option(name: str, key: str, **settings: Any) -> Callable[[Command], Command]:
    """Return an option whose value is not passed to the command, but kept in the context before STORE is opened.

    Parameters: key: of the value in the context. settings: other arguments of ``click.option``.
    """
    return click.option(name, is_eager=True, expose_value=False, callback=keep_as(key), **settings)


broker_conf_option = kept_option(
    "--broker-conf",
    BROKER_CONF,
    type=PATH,
    help="The broker's properties file. It is needed for directories elsewhere and for sizes that files do not show.",
)
leftovers_option = kept_option(
    "--leftovers",
    LEFTOVERS,
    is_flag=True,
    help="Also read old records and units after the ends of log and queues, which a broker cut off but did not erase.",
)
tiered_option = kept_option(
    "--tiered",
    TIERED,
    is_flag=True,
    help="Also read messages that are only in tiered storage. The broker's properties file or --tier gives its path.",
)
tier_option = kept_option(
    "--tier",
    TIER,
    metavar="PATH",
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
compacted_option = kept_option(
    "--compacted",
    COMPACTED,
    is_flag=True,
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
