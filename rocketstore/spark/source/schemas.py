"""The columns of each table: names, types in Spark and in Arrow, and the fields of messages that they show."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa
import pyspark.sql.types as T

from rocketstore.kernels.message_columns import BROKER, MESSAGE_FIELDS, ON_REQUEST
from rocketstore.spark.source.options import ReadOptions

CORRUPT_RECORD = "_corrupt_record"


class Type(NamedTuple):
    """A type in Spark, and the type that Spark expects for it in Arrow."""

    spark: Any
    arrow: pa.DataType


INT = Type(T.IntegerType(), pa.int32())
LONG = Type(T.LongType(), pa.int64())
STRING = Type(T.StringType(), pa.string())
BOOLEAN = Type(T.BooleanType(), pa.bool_())
BINARY = Type(T.BinaryType(), pa.binary())
TIMESTAMP = Type(T.TimestampType(), pa.timestamp("us", "UTC"))
STRINGS = Type(T.ArrayType(T.StringType()), pa.list_(pa.field("element", pa.string())))
MAP = Type(T.MapType(T.StringType(), T.StringType()), pa.map_(pa.string(), pa.string()))
HEADERS = Type(
    T.ArrayType(T.StructType([T.StructField("key", T.StringType()), T.StructField("value", T.BinaryType())])),
    pa.list_(pa.field("element", pa.struct({"key": pa.string(), "value": pa.binary()}))),
)
TYPES = {"u": STRING, "i": INT, "l": LONG, "tsm:UTC": TIMESTAMP, "z": BINARY, "b": BOOLEAN, "+l": STRINGS, "+m": MAP}


class TableColumn(NamedTuple):
    """A column of a table.

    Attributes: source: the field of a message that the column shows; None for a constant, or in another table.
    on_request: whether the column is left out unless the user names it.
    """

    type: Type
    source: str | None = None
    on_request: bool = False


def message_columns() -> dict[str, TableColumn]:
    columns = {}
    for source, field in MESSAGE_FIELDS.items():
        columns[field.name] = TableColumn(TYPES[field.format], source, source in ON_REQUEST or source == "properties")
        if source == "topic":
            columns["brokerName"] = TableColumn(STRING)
    return {**columns, CORRUPT_RECORD: TableColumn(STRING, on_request=True)}


KAFKA = {
    "key": TableColumn(BINARY, "keys"),
    "value": TableColumn(BINARY, "body"),
    "topic": TableColumn(STRING, "topic"),
    "partition": TableColumn(INT, "queue_id"),
    "offset": TableColumn(LONG, "queue_offset"),
    "timestamp": TableColumn(TIMESTAMP, "store_timestamp"),
    "timestampType": TableColumn(INT),
    "headers": TableColumn(HEADERS, "properties", on_request=True),
    "bodyError": TableColumn(STRING, "body_error", on_request=True),
    CORRUPT_RECORD: TableColumn(STRING, on_request=True),
}
QUEUE = {"topic": TableColumn(STRING), "queueId": TableColumn(INT)}
TABLES = {
    "messages": message_columns(),
    "kafka": KAFKA,
    "consumequeue": {
        **QUEUE,
        **{name: TableColumn(LONG) for name in ("queueOffset", "phyOffset")},
        "size": TableColumn(INT),
        "tagsCode": TableColumn(LONG),
    },
    "index": {
        "file": TableColumn(STRING),
        "ordinal": TableColumn(INT),
        "keyHash": TableColumn(INT),
        "phyOffset": TableColumn(LONG),
        "timeDiff": TableColumn(INT),
        "prevIndex": TableColumn(INT),
        "storeTimeApprox": TableColumn(TIMESTAMP),
    },
    "offsets": {
        **QUEUE,
        **{name: TableColumn(LONG) for name in ("minOffset", "maxOffset", "minPhyOffset", "maxPhyOffset")},
        "group": TableColumn(STRING, on_request=True),
        "consumerOffset": TableColumn(LONG, on_request=True),
    },
}


class TableSchema(NamedTuple):
    """The columns that a query reads.

    Attributes: columns: by the names of the table. arrow: the schema of the Arrow batches, with the names of the user.
    """

    columns: dict[str, TableColumn]
    arrow: pa.Schema


def columns_of(options: ReadOptions) -> dict[str, TableColumn]:
    """Return the columns of a table. Of several stores it also has ``broker``; in the style of Kafka on request."""
    is_kafka = options.schema_style == "kafka"
    columns = TABLES["kafka" if is_kafka else options.table]
    return columns if options.paths is None else {BROKER: TableColumn(STRING, on_request=is_kafka), **columns}


def default_schema(options: ReadOptions) -> Any:
    """Return the StructType of a table if the user gives no schema.

    Raises: ValueError if the option ``columns`` names an unknown column.
    """
    columns = columns_of(options)
    if options.columns is not None:
        names = [known_name(columns, name) for name in options.columns]
    else:
        wanted = {"properties", "headers"} if options.include_headers else set()
        wanted |= {CORRUPT_RECORD} if options.mode == "PERMISSIVE" else set()
        names = [name for name, column in columns.items() if not column.on_request or name in wanted]
    return T.StructType([T.StructField(name, columns[name].type.spark) for name in names])


def table_schema(options: ReadOptions, schema: Any) -> TableSchema:
    """Check the StructType of a user, or the default one. Return the columns to read.

    Every column must be nullable. Spark does not check columns that are declared otherwise, and the row of a corrupt
    record has nulls.

    Raises: ValueError for a column that is unknown, repeated, of another type, or missing in the option ``columns``.
    """
    columns = columns_of(options)
    wanted = {}
    for field in schema.fields:
        name = known_name(columns, field.name)
        column = columns[name]
        if name in wanted:
            raise ValueError(f"column {field.name}: the schema has it twice")
        is_type, must = field.dataType.simpleString(), column.type.spark.simpleString()
        if is_type != must:
            raise ValueError(f"column {field.name}: the type must be {must}, but the schema has {is_type}")
        if not field.nullable:
            raise ValueError(f"column {field.name}: values may be missing: make the column nullable in the schema")
        if field.dataType != column.type.spark:
            raise ValueError(f"column {field.name}: its elements must be nullable, as in {column.type.spark}")
        wanted[name] = column
    if options.columns is not None and list(wanted) != default_schema(options).fieldNames():
        names = ",".join(options.columns)
        raise ValueError(f"option columns={names}: the schema has other columns: give only one of them")
    if not wanted:
        raise ValueError("the schema has no column")
    pairs = zip(schema.fields, wanted.values(), strict=True)
    arrow = pa.schema([pa.field(field.name, column.type.arrow) for field, column in pairs])
    return TableSchema(wanted, arrow)


def known_name(columns: dict[str, TableColumn], name: str) -> str:
    for known in columns:
        if known.lower() in (name.lower(), name.lower().replace("_", "")):
            return known
    raise ValueError(f"column {name} is unknown: the table has {', '.join(columns)}")
