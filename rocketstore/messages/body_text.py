"""Bodies as text: the columns ``body_text`` and ``body_json``, and the charsets of text."""

from __future__ import annotations

import codecs
import contextlib
from collections.abc import Iterable

import numpy as np

from rocketstore.kernels.json_text import find_json
from rocketstore.kernels.message_columns import TEXTS_OF_BODY
from rocketstore.kernels.text_lines import find_utf8
from rocketstore.kernels.value_columns import BinaryColumn, StringColumn
from rocketstore.text_values import find_similar

UTF8 = "utf-8"  # as Python names it
# Names that Java and databases use, for the hint of an error. Python has more.
KNOWN_CHARSETS = (
    "utf-8", "gbk", "gb18030", "gb2312", "big5", "shift_jis", "euc-jp", "euc-kr", "iso-8859-1", "latin-1",
    "windows-1252", "windows-1251", "koi8-r", "utf-16", "utf-16le", "utf-16be", "ascii",
)  # fmt: skip


def find_charset(name: str) -> str:
    """Return the name that Python gives to a charset, such as gbk, GB18030 or windows-1252.

    Raises: ValueError for an unknown charset, or a codec that is no charset; TypeError for another type.
    """
    if not isinstance(name, str):
        raise TypeError(f"charset={name!r:.80}: the name of a charset was expected")
    try:
        codec = codecs.lookup(name)
        with contextlib.suppress(UnicodeError):  # one byte may be half of a character
            b"a".decode(name)  # raises LookupError for a codec from bytes to bytes, such as base64
    except (LookupError, ValueError):
        similar = find_similar(name, KNOWN_CHARSETS)
        hint = f"did you mean {similar!r}?" if similar else "give a charset such as utf-8, gbk or shift_jis"
        raise ValueError(f"charset={name!r:.80}: there is no such charset: {hint}") from None
    return codec.name


def decode_body(body: bytes, charset: str) -> str | None:
    """Return a body as text; None if it is no text of the charset.

    Parameters: charset: as ``find_charset`` returns it.
    """
    try:
        text = body.decode(charset)
        text.encode()  # raises for half of a surrogate pair, which some charsets have
    except UnicodeError:
        return None
    return text


def body_text_column(body: BinaryColumn[bytes | None], charset: str) -> StringColumn[str | None]:
    """Make the column ``body_text``: each body as text, null if it is null or no text of the charset.

    Parameters: charset: as ``find_charset`` returns it.
    """
    if charset == UTF8:
        return only_rows(body, find_utf8(body.offsets, body.data) & body.is_valid)
    bodies = body.to_pylist()
    texts = [None if body is None else decode_body(body, charset) for body in bodies]
    parts = [b"" if text is None else text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, parts)])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise MemoryError("the texts of the bodies of a batch have more than 2 GiB: read fewer at once")
    valid = np.array([text is not None for text in texts], np.bool_)
    return StringColumn(offsets.astype(np.int32), np.frombuffer(b"".join(parts), np.uint8), valid)


def body_text_columns(
    body: BinaryColumn[bytes | None], names: Iterable[str], charset: str
) -> dict[str, StringColumn[str | None]]:
    """Make those of the columns ``body_text`` and ``body_json`` that are among ``names``.

    Parameters: charset: as ``find_charset`` returns it.
    """
    wanted = {*names} & {*TEXTS_OF_BODY}
    if not wanted:
        return {}
    text = body_text_column(body, charset)
    made = {"body_text": text}
    if "body_json" in wanted:
        made["body_json"] = body_json_column(text)
    return made


def body_json_column(text: StringColumn[str | None]) -> StringColumn[str | None]:
    """Make the column ``body_json``: each text that is JSON by RFC 8259, null for any other text."""
    return only_rows(text, find_json(text.offsets, text.data) & text.is_valid)


def only_rows(
    column: BinaryColumn[bytes | None] | StringColumn[str | None], chosen: np.ndarray
) -> StringColumn[str | None]:
    """Make a column of strings of the chosen rows, null and without bytes in all other rows.

    Parameters: chosen: bool[n]. Raises nothing for bytes of other rows that are not UTF-8, since these are left out.
    """
    if chosen.all():
        return StringColumn(column.offsets, column.data)
    sizes = np.diff(column.offsets)
    offsets = np.concatenate([[0], np.cumsum(np.where(chosen, sizes, 0))]).astype(np.int32)
    kept = column.data[column.offsets[0] : column.offsets[-1]][np.repeat(chosen, sizes)]
    return StringColumn(offsets, kept, chosen)


def json_or_none(text: str | None) -> str | None:
    """Return a text if it is JSON by RFC 8259, else None."""
    if text is None:
        return None
    data = np.frombuffer(text.encode(), np.uint8)
    return text if find_json(np.array([0, len(data)], np.int32), data)[0] else None
