"""A broker's properties file, read as the broker reads it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rocketstore.java_text import trim
from rocketstore.logger import logger

# A backslash at the end of a line, or of the file, joins the next line without its blanks. The groups that are repeated
# are not possessive: Python before 3.11.5 does not go back to where such a group began when it fails.
_JOIN = r"\\(?:\r\n?|\n|\Z)[ \t\f]*+"
_BLANK = rf"[ \t\f]*+(?:{_JOIN})*"
_KEY = rf"([^\\=: \t\f\r\n]*+(?:(?:{_JOIN}|\\.)[^\\=: \t\f\r\n]*+)*)"
_VALUE = rf"([^\\\r\n]*+(?:(?:{_JOIN}|\\.)[^\\\r\n]*+)*)"
PROPERTY = re.compile(rf"{_BLANK}(?:[#!][^\r\n]*|{_KEY}{_BLANK}[=:]?{_BLANK}{_VALUE})(?:\r\n?|\n|\Z)")
ESCAPE = re.compile(rf"{_JOIN}|((?:\\u[0-9a-fA-F]{{4}})+)|\\(.)")
ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class BrokerFile(dict[str, str]):
    """The properties of a broker's file that ``StoreConfig`` has no field for, by name.

    Attributes
    ----------
    path : of the file.
    unusable : values of the file that the broker accepts and rocketstore cannot use. By the name of a StoreConfig
        field: the value that the field has instead, and the reason.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.unusable: dict[str, tuple[object, str]] = {}

    @property
    def store_path_root_dir(self) -> Path:
        """The root of the broker's store, absolute. Source: MessageStoreConfig.storePathRootDir."""
        given = trim(self.get("storePathRootDir", ""))
        return Path(given).absolute() if given else Path.home() / "store"

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (self.path, dict(self), self.unusable)


def _restore(path: Path, properties: dict[str, str], unusable: dict[str, tuple[object, str]]) -> BrokerFile:
    file = BrokerFile(path)
    file.update(properties)
    file.unusable = unusable
    return file


class Property(NamedTuple):
    """The value of a property, and the number of the line that it begins in."""

    text: str
    line: int


def read_properties(path: Path) -> dict[str, Property]:
    """Read a properties file. The last of several values of one key counts.

    Raises: OSError; ValueError naming path, line and key for a malformed escape, with which the broker does not start.
    Source: Properties.load.
    """
    found: dict[str, Property] = {}
    for line, *escaped in _split(path.read_bytes().decode("iso-8859-1")):
        try:
            key, text = (ESCAPE.sub(_unescape, part) for part in escaped)
        except ValueError as error:
            raise ValueError(f"{path}, line {line}, {escaped[0]}: {error}") from None
        found[key] = Property(text, line)
    return found


def _split(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line number, key and value of each property, with the escapes still in them."""
    line = 1
    for match in PROPERTY.finditer(text):
        if match[1] or match[2]:
            yield line, match[1], match[2]
        line += len(re.findall("\r\n?|\n", match[0]))


def _unescape(match: re.Match[str]) -> str:
    if match[2] == "u":
        raise ValueError(r"\u must have four hexadecimal digits")
    if match[1]:
        return bytes.fromhex(match[1].replace("\\u", "")).decode("utf-16-be", "replace")
    return ESCAPED.get(match[2] or "", match[2] or "")


@functools.lru_cache(1024)
def warn_once(text: str) -> None:
    """Log a warning, unless this process has logged it lately."""
    logger.warning("%s", text)
