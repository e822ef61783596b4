"""Read JSON as leniently as fastjson, with which RocketMQ's brokers read the files of their configuration.

No existing parser of lenient JSON agrees with fastjson. RocketMQ 5.3.3 and 5.5.0 agree with each other on 464 probes.
Of these, this parser agrees on 456, demjson3 on 396, hjson on 389, chompjs on 374 and json5 on 320. json5 refuses the
integers that RocketMQ itself writes as names. Therefore the tokens are rewritten as strict JSON here, and the standard
library parses the result.
"""

from __future__ import annotations

import json
import re
import sys
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from rocketstore.kernels.csrc import utf8_repair

BYTE_ORDER_MARK = "\ufeff"
MOST = sys.float_info.max
MOST_DIGITS = 4000  # of an integer: Python refuses to convert more than 4,300
EXTRA_COMMA_DEPTH = 2  # open containers up to which fastjson accepts repeated commas between members
# A string, closed or not; or an integer in the place of a name, which fastjson writes without quotes.
INTEGER_KEY = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*"?|([{,][ \t\r\n]*+)(-?[0-9]++)(?=[ \t\r\n]*+:)', re.DOTALL)
TOKEN = re.compile(
    r"""(?P<blank>[\x00-\x19\x1b-\x20\x7f\xa0]++|//[^\n]*+|/\*.*?(?:\*/|\Z))
    |(?P<text>"[^"\\]*+(?:\\.[^"\\]*+)*"|'[^'\\]*+(?:\\.[^'\\]*+)*')
    |(?P<mark>[{}\[\]:,])
    |(?P<number>[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)[BDFLS]?(?![\w.])
    |(?P<word>[^\W\d][\w$]*+|\$[\w$]*+)
    |(?P<end>\x1a)""",
    re.DOTALL | re.VERBOSE,
)
NUMBER = re.compile(r"([+-]?)([0-9]*+)(\.[0-9]*+)?(.*)")
ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
ESCAPED = {"b": "\b", "f": "\f", "F": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
ESCAPED |= {mark: mark for mark in "\"'/\\"} | {str(digit): chr(digit) for digit in range(8)}
WORDS = ("true", "false", "null")


class Number(float):
    """A number that is no integer, or a very long one, with the text that it was read from."""

    text: str

    def __new__(cls, text: str) -> Number:
        self = super().__new__(cls, min(max(float(text), -MOST), MOST))  # infinity could not be written again
        self.text = text
        return self


def parse_json(data: bytes) -> Any:
    """Parse bytes as fastjson (RocketMQ up to 5.3) or fastjson2 (since) parses the text of a configuration file.

    Beyond JSON both read a byte order mark, comments, single quotes, integers as names, repeated names (the last
    counts), a comma behind the last member, missing commas, numbers like ``+1``, ``01``, ``1.`` and ``900L``,
    and zero bytes behind the end. Bytes that are no UTF-8 become U+FFFD. tests/golden/config-probes.jsonl.xz has
    the results of RocketMQ's own decoders for 589 files.

    Returns: dict, list, str, int, Number, bool or None.
    Raises: ValueError naming line and column; RecursionError.
    Source: RemotingSerializable.fromJson, MixAll.file2String.
    """
    text = utf8_repair(data).decode("utf-8").removeprefix(BYTE_ORDER_MARK)
    try:
        root = _load(INTEGER_KEY.sub(lambda found: f'{found[1]}"{found[2]}"' if found[2] else found[0], text))
    except ValueError:  # rare: a file that was edited by hand
        root = _Normalizer(text).load()
    return _replace_half_pairs(root) if "\\" in text else root


def encode_json(table: Mapping[str, Any]) -> bytes:
    """Return the bytes of a file with a JSON object."""
    return json.dumps(table, ensure_ascii=False, indent="\t").encode()


def _load(text: str) -> Any:
    return json.loads(text, strict=False, parse_int=_integer, parse_float=Number, parse_constant=_refuse)


def _integer(text: str) -> int | Number:
    return int(text) if len(text) <= MOST_DIGITS else Number(text)


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no number of a configuration")


def _replace_half_pairs(value: Any) -> Any:
    """Replace each half of a surrogate pair by "?", as Java does when it writes the text."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return _map_texts(value)
    return value


def _map_texts(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_map_texts(item) for item in value]
    if isinstance(value, dict):
        return {_map_texts(name): _map_texts(member) for name, member in value.items()}
    return value


def _strict_number(found: re.Match[str]) -> str:
    """Return a number of fastjson as strict JSON writes it."""
    fraction = f"{found[3]}0" if found[3] == "." else found[3] or ""
    return f"{found[1].strip('+')}{found[2].lstrip('0') or '0'}{fraction}{found[4]}"


class _Normalizer:
    """Writes the tokens of lenient JSON as strict JSON, which the standard library then parses."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.parts: list[str] = []
        self.lengths = [0]  # of the parts so far
        self.places: list[int] = []  # where each part begins in the text
        self.containers: list[str] = []  # "{" or "[" of each that is open
        self.before = ""  # the last token: "open", "name", "colon", "value" or "comma"

    def load(self) -> Any:
        """Parse the text. Raises: json.JSONDecodeError with the place in the original text."""
        place = 0
        while place < len(self.text):
            found = TOKEN.match(self.text, place)
            if found is None:
                raise json.JSONDecodeError("A token was expected", self.text, place)
            if found.lastgroup == "end":  # fastjson's mark of the end of the text
                break
            if found.lastgroup != "blank":
                self._write_token(found, place)
            place = found.end()
        try:
            return _load("".join(self.parts))
        except json.JSONDecodeError as error:
            part = bisect_right(self.lengths, error.pos) - 1
            place = self.places[part] if part < len(self.places) else len(self.text)
            raise json.JSONDecodeError(error.msg, self.text, place) from None

    def _write_token(self, found: re.Match[str], place: int) -> None:
        kind, token = found.lastgroup, found["mark"]
        if token == ",":
            self._write_comma(place)
        elif token == ":":
            self._write(token, place, "colon")
        elif token in ("}", "]"):
            if self.before == "comma":
                self._drop_last()
            if self.containers:
                self.containers.pop()
            self._write(token, place, "value")
        else:
            if self.before == "value" and len(self.containers) > 1:  # fastjson needs commas in the outermost object
                self._write(",", place, "comma")
            is_name = self.containers[-1:] == ["{"] and self.before in ("open", "comma")
            if token:
                self.containers.append(token)
                self._write(token, place, "open")
            elif is_name:
                self._write(json.dumps(self._name(kind, found)), place, "name")
            else:
                self._write(self._value(kind, found), place, "value")

    def _write_comma(self, place: int) -> None:
        is_extra = self.before in ("comma", "open") and bool(self.containers)
        if is_extra and len(self.containers) > EXTRA_COMMA_DEPTH:
            raise json.JSONDecodeError("A member was expected before the comma", self.text, place)
        if not is_extra:
            self._write(",", place, "comma")

    def _write(self, part: str, place: int, kind: str) -> None:
        self.parts.append(part)
        self.lengths.append(self.lengths[-1] + len(part))
        self.places.append(place)
        self.before = kind

    def _drop_last(self) -> None:
        self.parts.pop()
        self.lengths.pop()
        self.places.pop()

    def _name(self, kind: str | None, found: re.Match[str]) -> str:
        if kind == "text":
            return self._unescape(found)
        if found["word"] == "null":
            raise json.JSONDecodeError("null is no name", self.text, found.start())
        return found[kind or ""]

    def _value(self, kind: str | None, found: re.Match[str]) -> str:
        if kind == "text":
            return json.dumps(self._unescape(found))
        if kind == "number":
            return NUMBER.sub(_strict_number, found["number"], count=1)
        if found["word"] not in WORDS:
            raise json.JSONDecodeError("A value was expected", self.text, found.start())
        return str(found["word"])

    def _unescape(self, found: re.Match[str]) -> str:
        token = found["text"][1:-1]
        if "\\" not in token:
            return token
        for escape in ESCAPE.finditer(token):
            if escape[3] is not None and escape[3] not in ESCAPED:
                raise json.JSONDecodeError("An escape was expected", self.text, found.start() + escape.start() + 1)
        text = ESCAPE.sub(lambda e: ESCAPED[e[3]] if e[3] is not None else chr(int(e[1] or e[2], 16)), token)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")  # joins pairs
