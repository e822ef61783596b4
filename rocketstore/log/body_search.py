"""Conditions on the bytes or the text of bodies."""

from __future__ import annotations

import re

import numpy as np

from rocketstore.kernels.record_filter import find_literal
from rocketstore.limits import INT_MAX
from rocketstore.messages.bodies import BadBodies
from rocketstore.messages.body_text import UTF8, find_charset
from rocketstore.messages.message_batch import MessageBatch

BODY = ("body",)


class BodyContains:
    """A condition: the body contains these bytes. A scan searches bodies that are not compressed without a copy.

    A compressed body is searched decompressed.

    Attributes: literal: the bytes. bad_bodies: counts the bodies that cannot be decoded. They do not meet it.

    Examples:
    >>> rocketstore.open("demo").scan().filtered(rocketstore.BodyContains("order 9")).count()
    11
    """

    def __init__(self, literal: bytes | str, *, charset: str = UTF8) -> None:
        """Parameters: literal: bytes, or a text in the charset of the bodies.

        Raises: ValueError without a byte, or for a text that the charset does not have; TypeError.
        """
        if isinstance(literal, str):
            literal = literal.encode(find_charset(charset), "surrogateescape")
        if not isinstance(literal, bytes):
            raise TypeError(f"{literal!r:.80}: bytes or a text were expected")
        self.literal = literal
        if not literal:
            raise ValueError("an empty text is in all bodies")
        self.bad_bodies = BadBodies()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that ``choose`` needs of a batch."""
        return BODY

    def choose(self, batch: MessageBatch) -> np.ndarray:
        """Return the numbers of the rows that meet the condition, int64[n], ascending."""
        found = [
            find_literal(part.body.offsets, part.body.data, self.literal)
            for part in batch.split(INT_MAX, self.bad_bodies, lambda error: error)
        ]
        return np.flatnonzero(np.concatenate(found)) if found else np.zeros(0, np.int64)

    def __repr__(self) -> str:
        return f"<BodyContains {self.literal!r}>"


class BodyMatches:
    """A condition: a regular expression of Python's ``re`` is found in the text of the body.

    A byte that is not UTF-8 is one character, U+DC80 to U+DCFF, as with errors="surrogateescape"; in other charsets it
    is U+FFFD.

    Attributes: pattern: the compiled expression. bad_bodies: counts the bodies that cannot be decoded. They do not meet
    it.

    Examples:
    >>> rocketstore.open("demo").scan().filtered(rocketstore.BodyMatches(r"^order \\d$")).count()
    10
    """

    def __init__(self, pattern: str, *, charset: str = UTF8) -> None:
        """Parameters: pattern: ``(?i)`` at its begin ignores case. charset: of the bodies.

        Raises: ValueError for a wrong or an empty expression.
        """
        if pattern == "":
            raise ValueError("an empty expression is found in all bodies")
        self._charset = find_charset(charset)
        self._errors = "surrogateescape" if self._charset == UTF8 else "replace"
        try:
            self.pattern = re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"{pattern!r:.200}: {error}") from None
        self.literal: bytes | None = None  # an expression shows no bytes that a scan can search for
        self.bad_bodies = BadBodies()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that ``choose`` needs of a batch."""
        return BODY

    def choose(self, batch: MessageBatch) -> np.ndarray:
        """Return the numbers of the rows that meet the condition, int64[n], ascending."""
        search, charset, errors = self.pattern.search, self._charset, self._errors
        rows, row = [], 0
        for part in batch.split(INT_MAX, self.bad_bodies, lambda error: error):
            for body in part.body:
                if body is not None and search(body.decode(charset, errors)):
                    rows.append(row)
                row += 1
        return np.array(rows, np.int64)

    def __repr__(self) -> str:
        return f"<BodyMatches {self.pattern.pattern!r}>"
