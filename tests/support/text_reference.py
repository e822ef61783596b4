"""The text of rows, written slowly by Python's own ``json`` and ``csv``: what ``messages.text_lines`` must write."""

import base64
import csv
import io
import json

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def json_text(row):
    text = json.dumps(row, ensure_ascii=False)
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text) + "\n"


def csv_text(row, *, is_safe=False):
    fields = []
    for value in row.values():
        if isinstance(value, list | dict):
            fields.append(json.dumps(value, ensure_ascii=False))
        elif is_safe and isinstance(value, str) and value.startswith(FORMULA_STARTS):
            fields.append(f"'{value}")
        else:
            fields.append(value)
    line = io.StringIO()
    csv.writer(line).writerow(fields)
    return line.getvalue().removesuffix("\r\n") + "\n"


def with_body(row):
    """Return a row, given as the values of the columns of a batch, with its body as text or base64, and the error."""
    row = dict(row)
    body, error = row.pop("body"), row.pop("bodyError", None)
    text = digits = None
    if body is not None:
        try:
            text = body.decode()
        except UnicodeDecodeError:
            digits = base64.b64encode(body).decode()
    row |= {"body": text, "bodyBase64": digits, "bodyError": error}
    if "rawBody" in row:
        row["rawBodyBase64"] = base64.b64encode(row.pop("rawBody")).decode()
    return row


def body_texts(body, charset="utf-8"):
    """Return body_text and body_json of a body, or of None, by Python's decoder and parser."""
    try:
        text = None if body is None else body.decode(charset)
        value = json.loads(text or "", parse_constant=refuse)
        json.dumps(value, ensure_ascii=False).encode()  # raises for half of a surrogate pair
    except UnicodeDecodeError:
        return None, None
    except ValueError:
        return text, None
    return text, text


def refuse(name):
    """Raise ValueError: NaN and Infinity are no JSON."""
    raise ValueError(name)
