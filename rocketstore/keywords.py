"""The keywords that all functions share, and errors that name the nearest keyword when a caller writes another one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from rocketstore.text_values import find_similar

P = ParamSpec("P")
R = TypeVar("R")

# Other words for a keyword, also those of RocketMQ and of Spark, in lower case without underscores.
OTHER_WORDS = {
    "subscribe": "topic",
    "subexpression": "tag",
    "consumer": "group",
    "consumergroup": "group",
    "after": "since",
    "begin": "since",
    "begintime": "since",
    "begintimestamp": "since",
    "start": "since",
    "starttime": "since",
    "startingtimestamp": "since",
    "before": "until",
    "end": "until",
    "endtime": "until",
    "endtimestamp": "until",
    "endingtimestamp": "until",
    "stop": "until",
    "to": "until",
    "count": "limit",
    "head": "limit",
    "maxmsgnums": "limit",
    "maxnum": "limit",
    "n": "limit",
    "rows": "limit",
}


def find_keyword(name: str, known: Iterable[str]) -> str | None:
    """Return the known keyword that a wrong one probably means; None if no keyword is near."""
    keywords = list(known)
    meant = OTHER_WORDS.get(name.replace("_", "").casefold())
    return meant if meant in keywords else find_similar(name, keywords)


def suggests_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Let a call with an unknown keyword raise a TypeError that names the nearest keyword of the function."""
    code = function.__code__
    keywords = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
    known = frozenset(keywords)
    most, by_name = code.co_argcount, code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    takes_more = bool(code.co_flags & inspect.CO_VARARGS)

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        if not known.issuperset(options):
            wrong = next(name for name in options if name not in known)
            raise TypeError(f"{function.__qualname__}() has no parameter {wrong!r}: {_hint(wrong, keywords)}")
        if len(args) > most and by_name and not takes_more:
            name = f"{function.__qualname__}()"
            raise TypeError(f"{name} takes {', '.join(by_name)} by name, such as {by_name[0]}={args[most]!r:.80}")
        return function(*args, **options)

    return call


def _hint(wrong: str, keywords: Iterable[str]) -> str:
    names = [name for name in keywords if name != "self"]
    meant = find_keyword(wrong, names)
    return f"the parameters are {', '.join(names)}" if meant is None else f"did you mean {meant}=?"
