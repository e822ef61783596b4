"""Complete the names in a store in a shell: topics, queue ids and consumer groups."""

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import click

import rocketstore
from rocketstore.errors import StoreError
from rocketstore.store.message_store import MessageStore

__all__ = ["complete_groups", "complete_queue_ids", "complete_topics"]

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def completer(find: Callable[[click.Context, MessageStore], Iterable[str]]) -> Completer:
    """Return a completer of the names that ``find`` finds in the store of the command line."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        with contextlib.suppress(OSError, StoreError, ValueError, KeyError):
            # click reads no argument if the value of the last option is missing. It has closed an open store.
            place: Any = ctx.params.get("store") or ctx.params.get("path") or next(iter(ctx.args), None)
            config = None
            if isinstance(place, MessageStore):
                place, config = place.path, place.config
            if place is not None:
                with rocketstore.open(place, config=config) as store:
                    return sorted(name for name in set(find(ctx, store)) if name.startswith(incomplete))
        return []

    return complete


@completer
def complete_topics(ctx: click.Context, store: MessageStore) -> Iterable[str]:
    return (topic for topic, _ in store.queues())


@completer
def complete_queue_ids(ctx: click.Context, store: MessageStore) -> Iterable[str]:
    """Find the queue ids of the topics that the command line has, or of all topics."""
    wanted = ctx.params.get("topics") or ctx.params.get("topic") or ()
    topics = [wanted] if isinstance(wanted, str) else wanted
    return (str(queue_id) for topic, queue_id in store.queues() if not topics or topic in topics)


@completer
def complete_groups(ctx: click.Context, store: MessageStore) -> Iterable[str]:
    return store.broker_config.consumer_offsets
