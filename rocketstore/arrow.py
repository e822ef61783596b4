"""Schemas of the tables in pyarrow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rocketstore.extras import import_extra
from rocketstore.kernels.arrow_export import OneStream, export_stream
from rocketstore.kernels.column_names import Names, named_fields
from rocketstore.kernels.message_columns import Field, message_fields

if TYPE_CHECKING:
    import pyarrow

__all__ = ["message_schema"]


def message_schema(columns: str | Iterable[str] | None = None, *, names: Names = "rocketmq") -> pyarrow.Schema:
    """Return the schema of a table of messages.

    Parameters: columns: names as in ``Message``; None: all but those that are only given on request (``body_error``,
    ``raw_body``, ``body_text``, ``body_json``, ``tags_code``, ``born_timestamp_ms``, ``store_timestamp_ms``,
    ``damaged``). names: of the columns in the schema: "rocketmq": such as queueId; "python": such as queue_id.
    Raises: ValueError for a name that there is not.
    """
    return schema_of(named_fields(message_fields(columns).values(), names))


def schema_of(fields: Iterable[Field]) -> pyarrow.Schema:
    """Return the schema of a table with these fields."""
    stream = OneStream(export_stream(fields, ()))
    return import_extra("pyarrow", "arrow").table(stream).schema
