"""Batches of messages as lines of JSON or CSV: the same rows as ``text_rows`` makes of single messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rocketstore.kernels.message_columns import batch_name
from rocketstore.kernels.text_lines import TextLines, find_utf8
from rocketstore.kernels.value_columns import BinaryColumn, StringColumn
from rocketstore.messages.bodies import body_error_column
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.text_rows import BASE64, BODY_ERROR


def batch_lines(
    batch: MessageBatch, names: Sequence[str], *, is_csv: bool = False, is_safe: bool = False
) -> Iterator[memoryview]:
    """Yield the rows of a batch as UTF-8, some lines at a time. Their text is released when the next lines are made.

    Parameters: names: of the columns, as ``row_names`` returns them. is_csv: CSV without a header in place of JSON.
    is_safe: put an apostrophe before text that a spreadsheet would evaluate as a formula. Raises: MemoryError.
    """
    columns = text_columns(batch, names)
    lines = TextLines(list(names), [columns[name] for name in names], len(batch), is_csv=is_csv, is_safe=is_safe)
    row = 0
    while row < len(batch):
        row = lines.write(row)
        with memoryview(lines) as text:
            yield text


def text_columns(batch: MessageBatch, names: Sequence[str]) -> dict[str, Any]:
    """Return columns of a batch by their names in text. A body is in ``body`` if it is UTF-8, else in ``bodyBase64``.

    A column that the batch does not have is None.
    """
    errors = batch.find_body_errors()
    found = {name: batch.columns.get(batch_name(BASE64.get(name, name))) for name in names}
    if errors and BODY_ERROR in found:
        found[BODY_ERROR] = body_error_column(errors, len(batch))
    body = batch.columns["body"] if "body" in found or "bodyBase64" in found else None
    if body is not None:
        is_text = find_utf8(body.offsets, body.data)
        found["body"] = StringColumn(body.offsets, body.data, is_text & body.is_valid)
        found["bodyBase64"] = BinaryColumn(body.offsets, body.data, ~is_text & body.is_valid)
    return found
