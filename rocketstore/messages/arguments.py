"""Arguments as callers write them: one text where a list is expected, and the tags of a subscription."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sized
from enum import Enum
from typing import Any


class NotGiven(Enum):
    """The value of an argument that a caller did not give, where None is a wrong value."""

    NOT_GIVEN = "not given"


NOT_GIVEN = NotGiven.NOT_GIVEN


def describe_empty(arguments: Mapping[str, Any]) -> list[str]:
    """Return a text about each condition that is an empty list. Parameters: arguments: the values, by their names."""
    return [
        f"{name}=[]: an empty list selects nothing: leave {name} out for all"
        for name, value in arguments.items()
        if isinstance(value, Sized) and not isinstance(value, str) and not len(value)
    ]


def text_list(value: str | Iterable[str] | None, name: str) -> list[str] | None:
    """Return an argument that is one text or several as a list; None for None.

    Parameters: name: of the argument, for errors. Raises: TypeError for any other type.
    """
    if value is None or isinstance(value, str):
        return None if value is None else [value]
    if isinstance(value, bytes) or not hasattr(value, "__iter__"):
        raise TypeError(f"{name}={value!r:.80}: a str or a list of str was expected")
    texts = list(value)
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"{name}: a list of str was expected, but {text!r:.80} is in it")
    return texts


def text_set(value: str | Iterable[str] | None, name: str) -> frozenset[str] | None:
    """Return an argument that is one text or several as a set; None for None. Parameters, raises: as ``text_list``."""
    texts = text_list(value, name)
    return None if texts is None else frozenset(texts)


def integer_list(value: Any) -> Iterable[int] | None:
    """Return an argument that is one integer or several as an iterable; None for None."""
    try:
        return [operator.index(value)]
    except TypeError:  # also for an array of integers, although it has ``__index__``
        several: Iterable[int] | None = value
        return several


def split_tags(tag: str | Iterable[str] | None) -> set[str] | None:
    """Return the tags of a subscription; None for all tags.

    Parameters: tag: an expression such as "a || b", or a list of expressions, each often a single tag. "*" and ""
    stand for all tags. Raises: TypeError. Source: FilterAPI.buildSubscriptionData.
    """
    expressions = text_list(tag, "tag")
    if expressions is None or any(text.strip() in ("", "*") for text in expressions):
        return None
    return {part.strip() for text in expressions for part in text.split("||")} - {""}


def join_tags(tags: Iterable[str]) -> str | None:
    """Return the expression that selects messages with one of these tags.

    Return None if no expression does: it has no empty tags, no spaces at the ends of a tag, and no "|".
    """
    wanted = sorted(tags)
    if all(tag and "|" not in tag and tag == tag.strip() for tag in wanted):
        return "||".join(wanted)
    return None


def list_if_iterator(value: Any) -> Any:
    """Return an argument that can be read several times: a list in place of an iterator."""
    return [*value] if isinstance(value, Iterator) else value
