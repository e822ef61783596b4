"""Java's arithmetic, text and number parsing."""

import re
import struct
import unicodedata

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def to_int(value):
    """Wrap to Java's int."""
    return (value + 2**31) % 2**32 - 2**31


def to_long(value):
    """Wrap to Java's long."""
    return (value + 2**63) % 2**64 - 2**63


def divide(dividend, divisor):
    """Divide as Java does: toward zero."""
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def java_hash(text):
    """String.hashCode: over UTF-16 units; a lone surrogate is its own unit."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for (unit,) in struct.iter_unpack(">H", units):
        code = to_int(31 * code + unit)
    return code


def key_for_hash(code, prefix=""):
    """Make a key so that prefix + key has the hash code: seven units, the digits of a number to base 31."""
    number = (code - java_hash(prefix) * 31**7) % 2**32
    return "".join(chr(number // 31**place % 31) for place in range(6, -1, -1))


def java_decode(data):
    """new String(bytes, UTF_8): as Python's "replace", but an encoded surrogate is one U+FFFD."""
    pieces = ENCODED_SURROGATE.split(data)
    return "\ufffd".join(piece.decode("utf-8", "replace") for piece in pieces)


def java_encode(text):
    """String.getBytes(UTF_8): an unpaired surrogate becomes "?"."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass").encode("utf-8", "replace")


def utf16_length(text):
    """String.length()."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def parse_number(text, bits):
    """Short.parseShort, Integer.parseInt, Long.parseLong: ValueError is their NumberFormatException.

    Digits are looked up char by char: those outside the BMP are two surrogates to Java, and no digits.
    """
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits:
        raise ValueError(f"no digits in {text!r}")
    number = 0
    for char in digits:
        if char > "\uffff" or unicodedata.category(char) != "Nd":
            raise ValueError(f"no digit: {char!r}")
        number = 10 * number + unicodedata.decimal(char)
    if text[0] == "-":
        number = -number
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise ValueError(f"{text!r} does not fit in {bits} bits")
    return number


def java_split(text, separator):
    """String.split by a plain separator: trailing empty parts are dropped, unless there is no separator at all."""
    parts = text.split(separator)
    if len(parts) == 1:
        return parts
    while parts and not parts[-1]:
        parts.pop()
    return parts
