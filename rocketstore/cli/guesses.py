"""Guess which option a user meant by a word after STORE that is no path, and which topics by a pattern."""

import contextlib
import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from rocketstore.brokers.find_stores import FAILURES
from rocketstore.cli.several import AskedStores
from rocketstore.cli.text import command, note
from rocketstore.disk.storage import find_matches
from rocketstore.disk.store_path import StorePath
from rocketstore.store.overview.known_names import known_topics
from rocketstore.store.overview.missing import topics_command
from rocketstore.text_values import find_similar

CHOOSING = ("key", "unique_key", "tag", "id", "since", "until")  # options; beside them, a word is no key and no id
ID = re.compile("[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56}")
WILDCARDS = "*?["
WITHOUT_NAMES = ("key", "id")  # kinds of which stores have no list of names


def split_words(paths: Sequence[StorePath], typed: Mapping[StorePath, str]) -> tuple[list[StorePath], list[str]]:
    """Split the paths that a user typed: those of stores, and the words at the end that can be no path.

    The first path is never a word, and a text with a slash is never one. Parameters: typed: the texts of the paths.
    """
    count = len(paths)
    while count > 1 and is_word(paths[count - 1], typed[paths[count - 1]]):
        count -= 1
    return [*paths[:count]], [typed[path] for path in paths[count:]]


def is_word(path: StorePath, text: str) -> bool:
    """Return whether no file has this name, and no directory is named."""
    if not isinstance(path, Path) or "/" in text:
        return False
    return not find_matches(path) and not path.exists() and not path.is_symlink()


def apply_words(
    stores: AskedStores | StorePath, words: Sequence[str], kinds: Sequence[str], options: dict[str, Any]
) -> Any:
    """Add the words after STORE to ``options`` as values of the options that they mean. Return the stores.

    A note names the option of each word. A word without a meaning is a problem of the returned stores if there are
    several, since it is probably the path of another store.

    Parameters: stores: a path for index files. kinds: the options that words may mean: topic, group, key, id. options:
    of the command; they are changed. Raises: UsageError for a word without a meaning.
    """
    names = known_names(stores, kinds)
    is_chosen = any(options.get(name) not in (None, ()) for name in CHOOSING)
    kinds = [kind for kind in kinds if not (is_chosen and kind in WITHOUT_NAMES)]
    meant = {word: find_kind(word, kinds, names) for word in words}
    if [*meant.values()] == ["topic"] and "key" in kinds:
        raise click.UsageError(only_topic(stores, words[0]))
    unknown = [word for word, kind in meant.items() if kind is None]
    if unknown and isinstance(stores, AskedStores) and stores.is_several:  # probably the path of another store
        stores = stores.with_problems(f"{word}: No such file or directory" for word in unknown)
    elif unknown:
        raise click.UsageError(describe_unknown(stores, unknown[0], kinds, names))
    for word, kind in meant.items():
        if kind is not None:
            note(f"{word} is read as --{kind} {word}")
            add_value(options, kind, word)
    return stores


def find_kind(word: str, kinds: Sequence[str], names: Mapping[str, Iterable[str]]) -> str | None:
    """Return the option that a word means; None if no name of the stores is like it."""
    for kind in kinds:
        known = names.get(kind)
        if known is None:
            is_meant = kind == "key" or ID.fullmatch(word) is not None
        else:
            is_meant = word in known or any(True for _ in matching(word, known))
        if is_meant:
            return kind
    return None


def add_value(options: dict[str, Any], name: str, word: str) -> None:
    """Give an option a value. Raises: UsageError if it has one and takes only one."""
    if isinstance(options.get(name), tuple):
        options[name] = (*options[name], word)
    elif options.get(name) is None:
        options[name] = word
    else:
        raise click.UsageError(f"{word!r}: give --{name} only once")


def known_names(stores: AskedStores | StorePath, kinds: Iterable[str]) -> dict[str, set[str]]:
    """Return the names of topics and of groups that stores have, by their option. A store that fails has none."""
    names: dict[str, set[str]] = {kind: set() for kind in kinds if kind not in WITHOUT_NAMES}
    for store in stores.stores.values() if isinstance(stores, AskedStores) else ():
        for kind, found in names.items():
            with contextlib.suppress(*FAILURES):  # the command reports it
                found.update(known_topics(store) if kind == "topic" else store.broker_config.consumer_offsets)
    return names


def only_topic(stores: object, topic: str) -> str:
    """Return an error text: a query needs more than a topic."""
    shown, one = command("cat", stores, "--topic", topic), command("query", stores, "--topic", topic, "--key")
    return f"{topic!r} is a topic: {shown} shows its messages, {one} KEY finds one"


def describe_unknown(stores: object, word: str, kinds: Sequence[str], names: Mapping[str, Iterable[str]]) -> str:
    """Return an error text for a word that is neither a path nor a name."""
    known = [kind for kind in kinds if kind in names]
    text = " nor ".join([f"{word!r} is neither a file or directory", *(f"a {kind} of {stores}" for kind in known)])
    for kind in known:
        if (similar := find_similar(word, names[kind])) is not None:
            return f"{text}: did you mean --{kind} {similar}?"
    return f"{text}: {topics_command(stores, word)}" if "topic" in known else text


# ---- patterns ----------------------------------------------------------------------------------------------


def expand_topics(stores: Any, topics: Sequence[str]) -> tuple[str, ...]:
    """Return topics with those that patterns such as ``ord*`` match, and with the parts of lists such as ``a,b``.

    A name that a store has is no pattern. Parameters: stores: AskedStores, or the path of index files. Raises:
    UsageError for a pattern that matches no topic.
    """
    if not any(sign in topic for topic in topics for sign in f"{WILDCARDS},"):
        return tuple(topics)
    known = known_names(stores, ["topic"])["topic"]
    found: dict[str, None] = {}
    for topic in topics:
        parts = [topic] if topic in known else [part for part in map(str.strip, topic.split(",")) if part] or [topic]
        for part in parts:
            matches = [part] if part in known else sorted(matching(part, known))
            if not matches and known and any(sign in part for sign in WILDCARDS):
                raise click.UsageError(f"--topic {part!r}: no topic matches: {command('ls', stores)} shows all")
            found |= dict.fromkeys(matches or [part])
    return tuple(found)


def matching(pattern: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the names that a pattern with * or ? matches; none for a text without them."""
    if any(sign in pattern for sign in WILDCARDS):
        yield from (name for name in names if fnmatch.fnmatchcase(name, pattern))
