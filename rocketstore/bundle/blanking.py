"""Blank texts and bytes that may be parts of messages or credentials."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

BLANK_BYTE, BLANKED = 0x78, "x"  # x
LEAST_ZEROS = 64  # zeros in a row that are shown: pages that the disk lost, or space that was never written
CREDENTIAL = re.compile("pass|pwd|secret|token|credential|key|private|auth|user|cert|salt|sign|pin", re.IGNORECASE)
WORD = re.compile(r"[^\s.,:;()/=|]+")
NUMBER = re.compile(r"-?[0-9]{1,20}")
IN_URI = re.compile(r"(:/{1,2})\S*@")  # user and password before a host


def words_of(texts: Iterable[str]) -> frozenset[str]:
    """Return the words of some texts that are no secret."""
    return frozenset(word for text in texts for word in WORD.findall(text))


# Words of findings and errors, besides those in the meanings of the kinds of findings.
WORDS = words_of([
    "a about after again all an and are at be because been before begin begins behind between body bodyCrc both",
    "broker but by byte bytes cannot checkpoint code commit config consumer contents count crc created data",
    "delivery did directory does down due each empty end ends entries entry error exists expected file files",
    "filler first for found from given group groups has hash have head header if in index indexCount info inside",
    "into is it item items its key keys last later lead leads least left length less level levels log magic",
    "mappedFileSize may message messages missing more most name names next no none not number of offset offsets",
    "on one only or other others out part physical physicalOffset position positions properties propertiesLength",
    "queue queueOffset queues read readable reason record records rest right same seconds set should size sizes",
    "slot slots sound space start stop store stored tags tail than that the them there these they this time times",
    "to topic topicLength topics totalSize unit units up value was were where which with without wrong zero zeros",
])  # fmt: skip


def blank_text(text: str, known: Collection[str]) -> str:
    """Return a text in which each word is replaced that is neither a number nor known.

    Parameters: known: words, and names of topics, groups and files.
    """

    def replace(found: re.Match[str]) -> str:
        word = found[0]
        is_known = word in WORDS or word in known or word.strip("'\"`") in known
        return word if is_known or NUMBER.fullmatch(word) else BLANKED

    return WORD.sub(replace, text)


def blank_uri(text: str) -> str:
    """Return a text without users and passwords in URIs. A path may have one slash in place of two."""
    return IN_URI.sub(rf"\1{BLANKED}@", text)


def blank_credentials(value: Any, known: Collection[str], *, is_credential: bool = False) -> Any:
    """Return parsed JSON in which the values of members are replaced whose names are those of credentials.

    Parameters: known: names of topics and groups, which are names of members too. is_credential: replace all values.
    """
    if isinstance(value, dict):
        return {
            str(key): blank_credentials(
                member, known, is_credential=is_credential or is_name_of_credential(str(key), known)
            )
            for key, member in value.items()
        }
    if isinstance(value, list):
        return [blank_credentials(member, known, is_credential=is_credential) for member in value]
    if value is None or is_credential:
        return None if value is None else BLANKED
    return value if isinstance(value, int | float | bool) else blank_uri(str(value))


def is_name_of_credential(name: str, known: Collection[str] = ()) -> bool:
    """Return whether a setting is a credential by its name. A key of offsets has a topic and a group."""
    topic, _, group = name.partition("@")
    is_of_topic = topic in known and (not group or group in known)
    return not is_of_topic and CREDENTIAL.search(name) is not None


def blank_bytes(data: bytes, kept: Iterable[tuple[int, int]]) -> bytes:
    """Return bytes in which all but some ranges and long runs of zeros are replaced.

    Parameters: kept: (begin, end) of the ranges that are shown, positions.
    """
    values = np.frombuffer(data, np.uint8)
    shown = np.full(len(values), BLANK_BYTE, np.uint8)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], values == 0, [False]]).astype(np.int8)))
    for begin, end in edges.reshape(-1, 2).tolist():
        if end - begin >= LEAST_ZEROS:
            shown[begin:end] = 0
    for begin, end in kept:
        first, last = max(begin, 0), min(end, len(values))
        shown[first:last] = values[first:last]
    return shown.tobytes()
