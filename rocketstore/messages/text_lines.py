"""Batches of messages as lines of JSON or CSV: the same rows as ``text_rows`` makes of single messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rocketstore.kernels.layout import DAMAGED_FLAG
from rocketstore.kernels.message_columns import TEXTS_OF_BODY, batch_name
from rocketstore.kernels.text_lines import TextLines
from rocketstore.kernels.value_columns import BinaryColumn
from rocketstore.messages.bodies import body_error_column
from rocketstore.messages.body_text import UTF8, body_text_columns
from rocketstore.messages.message_batch import MessageBatch
from rocketstore.messages.text_rows import BASE64, BODY_ERROR


def batch_lines(
    batch: MessageBatch, names: Sequence[str], *, is_csv: bool = False, is_safe: bool = False, charset: str = UTF8
) -> Iterator[memoryview]:
    """Yield the rows of a batch as UTF-8, some lines at a time. Their text is released when the next lines are made.

    Parameters: names: of the columns, as ``row_names`` returns them. is_csv: CSV without a header in place of JSON.
    is_safe: put an apostrophe before text that a spreadsheet would evaluate as a formula. charset: of the bodies, as
    ``find_charset`` returns it. Raises: MemoryError.
    """
    columns = text_columns(batch, names, charset)
    lines = TextLines(list(names), [columns[name] for name in names], len(batch), is_csv=is_csv, is_safe=is_safe)
    row = 0
    while row < len(batch):
        row = lines.write(row)
        with memoryview(lines) as text:
            yield text


def text_columns(batch: MessageBatch, names: Sequence[str], charset: str) -> dict[str, Any]:
    """Return columns of a batch by their names in text. A body is in ``body`` if it is text, else in ``bodyBase64``.

    A column that the batch does not have is None.
    """
    errors = batch.find_body_errors()
    found = {name: batch.columns.get(batch_name(BASE64.get(name, name))) for name in names}
    if errors and BODY_ERROR in found:
        found[BODY_ERROR] = body_error_column(errors, len(batch))
    if "damaged" in found and found["damaged"] is None and "flag" in batch.columns:
        found["damaged"] = np.asarray(batch.flag) == DAMAGED_FLAG
    body = batch.columns.get("body")
    missing = [name for name in TEXTS_OF_BODY if name in found and found[name] is None]
    if body is not None and (missing or "body" in found or "bodyBase64" in found):
        texts = body_text_columns(body, ["body_text", *missing], charset)
        found |= {name: texts[name] for name in missing}
        text = texts["body_text"]
        found["body"] = text
        found["bodyBase64"] = BinaryColumn(body.offsets, body.data, ~text.is_valid & body.is_valid)
    return found
