"""Read texts as Java does: numbers, booleans and blanks. Python's own rules change with its release."""

from __future__ import annotations

from rocketstore.kernels.csrc import parse_java_number
from rocketstore.limits import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN

TRIMMED = "".join(map(chr, range(0x21)))  # what String.trim removes
WHITESPACE = "\t\n\v\f\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a\u2028\u2029"
WHITESPACE += "\u205f\u3000"  # the chars for which Character.isWhitespace of JDK 17 is true


def parse_int(text: str) -> int | None:
    """Return the int that a text stands for; None if Java refuses it. Source: Integer.parseInt."""
    return parse_java_number(text, INT_MIN, INT_MAX)


def parse_long(text: str) -> int | None:
    """Return the long that a text stands for; None if Java refuses it. Source: Long.parseLong."""
    return parse_java_number(text, LONG_MIN, LONG_MAX)


def parse_boolean(text: str) -> bool:
    """Return whether a text is "true" in any case; any other text is false. Source: Boolean.parseBoolean."""
    return text.lower() == "true"


def trim(text: str) -> str:
    """Remove blanks and control characters from both ends. Source: String.trim."""
    return text.strip(TRIMMED)


def is_blank(text: str) -> bool:
    """Return whether a text has no character but white space. Source: StringUtils.isBlank, Character.isWhitespace."""
    return not text.strip(WHITESPACE)
