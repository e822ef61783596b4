"""Complete the names in a store in a shell: topics, queue ids and consumer groups."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from rocketstore.errors import StoreError

if TYPE_CHECKING:
    from rocketstore.store.message_store import MessageStore

STORE_ARGUMENTS = ("store", "stores", "path", "a")  # names of the arguments of commands that are a store
Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def completer(find: Callable[[click.Context, "MessageStore"], Iterable[str]]) -> Completer:
    """Return a completer of the names that ``find`` finds in the store of the command line."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        with contextlib.suppress(OSError, StoreError, ValueError, KeyError):
            places = find_places(ctx)
            if places:
                from rocketstore.cli.several import open_stores

                stores = open_stores(ctx, places).stores.values()
                found = {name for store in stores for name in find(ctx, store)}
                return sorted(name for name in found if name.startswith(incomplete))
        return []

    return complete


def find_places(ctx: click.Context) -> Sequence[Any]:
    """Return the paths of the stores that a command line names; empty without one."""
    given = next(filter(None, map(ctx.params.get, STORE_ARGUMENTS)), None)
    if given is not None:
        return given if isinstance(given, list | tuple) else [given]
    # click reads no argument if the value of the last option is missing.
    takes_several = any(parameter.name == "stores" for parameter in ctx.command.params)
    return ctx.args if takes_several else ctx.args[:1]


def complete_words(words: Sequence[str]) -> Completer:
    """Return a completer for a list with commas: it completes the last word, and offers no word of the list again."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        given, comma, last = incomplete.rpartition(",")
        others = [word for word in words if word not in given.split(",")]
        return [f"{given}{comma}{word}" for word in others if word.startswith(last)]

    return complete


@completer
def complete_topics(ctx: click.Context, store: "MessageStore") -> Iterable[str]:
    return (topic for topic, _ in store.queues())


@completer
def complete_queue_ids(ctx: click.Context, store: "MessageStore") -> Iterable[str]:
    """Find the queue ids of the topics that the command line has, or of all topics."""
    wanted = ctx.params.get("topic") or ()
    topics = [wanted] if isinstance(wanted, str) else wanted
    return (str(queue_id) for topic, queue_id in store.queues() if not topics or topic in topics)


@completer
def complete_groups(ctx: click.Context, store: "MessageStore") -> Iterable[str]:
    return store.broker_config.consumer_offsets
