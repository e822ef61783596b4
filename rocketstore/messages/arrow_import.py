"""Arrow tables of messages, in the shape that rocketstore gives them, to the columns of a batch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn

import numpy as np

from rocketstore.extras import import_extra
from rocketstore.kernels.arrow_check import CheckedArray, CheckedStream
from rocketstore.kernels.columns import is_masked
from rocketstore.kernels.message_columns import BATCH_NAMES, MESSAGE_FIELDS
from rocketstore.kernels.value_columns import BinaryColumn, ListColumn, MapColumn, StringColumn
from rocketstore.limits import INT_MAX, LONG_MAX

PIECE_BYTES, PIECE_ROWS = 32 << 20, 256  # about the most, but not fewer
UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
PROPERTIES = "a map of strings, a list of pairs of them, or a struct of them"


def read_columns(source: Any, *, first_row: int = 0) -> Iterator[tuple[dict[str, Any], int]]:
    """Give columns, by their names in a batch, and the number of their rows, in one or more pieces.

    Parameters: source: has ``__arrow_c_stream__`` or ``__arrow_c_array__``. first_row: its number, for errors.
    Raises: TypeError for a column of another type; ValueError for columns that are unknown or missing, for a value
    that no message has, with column and row, and for data that contradicts itself; ModuleNotFoundError without pyarrow.

    No buffer of a batch is read before ``check_buffers`` has passed. If pyarrow made the batch, as from a file or a
    pandas DataFrame, the check compares the sizes of all buffers with lengths and offsets. The Arrow C interface does
    not give sizes. There pyarrow assumes that the last offset of an array is the size of its data, and the check
    compares the other offsets, views, indices and null counts with that size.
    """
    pa = import_extra("pyarrow", "arrow")
    with as_value_error(pa):
        reader = open_reader(source, pa)
    names = [MESSAGE_FIELDS[name].name if name in MESSAGE_FIELDS else name for name in reader.schema.names]
    check_names([name for name in names if not UNNAMED_INDEX.fullmatch(name)])
    for given in batches_of(reader, pa):
        batch = given if names == given.schema.names else given.rename_columns(names)
        check_buffers(batch, pa)
        for piece in pieces(batch):
            yield columns_of(piece, first_row, pa), piece.num_rows
            first_row += piece.num_rows


def open_reader(source: Any, pa: Any) -> Any:
    """Return a RecordBatchReader of a source.

    Data of pyarrow is not sent through the C interface. Importing it again would read the last offset of each array,
    which kills the process if the buffer of offsets is shorter than the length of the array needs.
    """
    if hasattr(source, "iloc") and type(source).__module__.startswith("pandas."):
        source = pa.Table.from_pandas(source)
    if isinstance(source, pa.RecordBatchReader):
        return source
    if isinstance(source, pa.Table):
        check_buffers(source, pa, full=False)  # cutting it into batches relies on these
        return source.to_reader()
    if isinstance(source, pa.Array | pa.ChunkedArray):
        source.validate(full=True)
    if hasattr(source, "__arrow_c_stream__") and not isinstance(source, pa.RecordBatch):
        return pa.RecordBatchReader.from_stream(CheckedStream(source))
    if isinstance(source, pa.RecordBatch):
        batch = source
    else:
        batch = pa.record_batch(CheckedArray(source) if hasattr(source, "__arrow_c_array__") else source)
    return pa.RecordBatchReader.from_batches(batch.schema, [batch])


def batches_of(reader: Any, pa: Any) -> Iterator[Any]:
    """Yield the batches of a reader; if it has none, a single batch without rows."""
    with as_value_error(pa):
        batch = next(reader, None)
        if batch is None:
            batch = pa.RecordBatch.from_pylist([], reader.schema)
    while batch is not None:
        yield batch
        with as_value_error(pa):
            batch = next(reader, None)


@contextmanager
def as_value_error(pa: Any, what: str = "the Arrow data cannot be read") -> Iterator[None]:
    """Turn the errors of pyarrow, among them a MemoryError for a size that lies, into a ValueError."""
    try:
        yield
    except (pa.ArrowException, MemoryError) as error:
        if isinstance(error, OSError | TypeError | pa.lib.ArrowCancelled):
            raise
        raise ValueError(f"{what}: {error}") from None


def check_buffers(table: Any, pa: Any, *, full: bool = True) -> None:
    """Raise ValueError unless lengths, offsets, views, indices, null counts and UTF-8 agree with each other.

    Parameters: table: a RecordBatch or Table. full: False checks only what needs no read of each row.
    """
    for name, column in zip(table.schema.names, table.columns, strict=True):
        with as_value_error(pa, f"column {name}"):
            column.validate(full=full)
    with as_value_error(pa):
        table.validate()


def join_columns(parts: Sequence[Any]) -> Any:
    """Make one column of those of several pieces."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, np.ndarray):
        join: Any = np.ma.concatenate if any(map(is_masked, parts)) else np.concatenate
        return join(parts)
    starts = np.cumsum([0, *(part.offsets[-1] for part in parts)])
    if starts[-1] > INT_MAX:
        raise ValueError("a column has more than 2 GiB: take the table piece by piece")
    offsets = np.concatenate([part.offsets[1:] + start for part, start in zip(parts, starts, strict=False)])
    offsets = np.concatenate([[0], offsets]).astype(np.int32)
    if isinstance(first, ListColumn):
        return ListColumn(offsets, join_columns([part.values for part in parts]))
    if isinstance(first, MapColumn):
        keys, values = ([getattr(part, name) for part in parts] for name in ("keys", "values"))
        return MapColumn(offsets, join_columns(keys), join_columns(values))
    valid = None
    if any(part.valid is not None for part in parts):
        valid = np.concatenate([np.ones(len(p.offsets) - 1, bool) if p.valid is None else p.valid for p in parts])
    return type(first)(offsets, np.concatenate([part.data for part in parts]), valid)


def check_names(names: list[str]) -> None:
    """Raise ValueError unless these are columns that messages can be made of."""
    unknown = [name for name in names if name not in BATCH_NAMES]
    if unknown:
        raise ValueError(f"columns {', '.join(unknown)}: are none of {', '.join(BATCH_NAMES)}")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"columns {', '.join(twice)}: are there more than once")
    if "topic" not in names or not {"body", "rawBody"} & {*names}:
        raise ValueError(f"columns {', '.join(names)}: topic and body are missing, or one of them")
    if "rawBody" in names and "sysFlag" not in names:
        raise ValueError("column rawBody: needs sysFlag, which says how it is compressed")


def pieces(batch: Any) -> Iterator[Any]:
    """Cut a batch into small ones; its rows count as of one size."""
    step = max(PIECE_ROWS, batch.num_rows * PIECE_BYTES // max(batch.get_total_buffer_size(), PIECE_BYTES))
    for start in range(0, batch.num_rows or 1, step):
        yield batch.slice(start, step)


def columns_of(batch: Any, first_row: int, pa: Any) -> dict[str, Any]:
    """Make the columns of a batch. One of the type null is none; a time is taken from its twin if it has one.

    A pandas index without a name is none of the message: rows that were chosen have one.
    """
    arrays = {
        name: array
        for name, array in zip(batch.schema.names, batch.columns, strict=True)
        if name in BATCH_NAMES and (not pa.types.is_null(array.type) or name in ("topic", "body", "rawBody"))
    }
    columns = {}
    for name, array in arrays.items():
        if name == "body" and array.null_count and "rawBody" in arrays:
            continue  # rawBody has the stored bytes of a body that could not be decoded
        column = ArrowColumn(name, first_row, arrays.get(f"{name}Ms", array), pa)
        with as_value_error(pa, f"column {name}"):
            columns[BATCH_NAMES[name]] = column.plain().read()
    return columns


class ArrowColumn(NamedTuple):
    """A column to be read: its name and the number of its first row, for errors, and the Arrow array."""

    name: str
    first_row: int
    array: Any
    pa: Any

    def refuse(self, row: int, what: str) -> NoReturn:
        raise ValueError(f"column {self.name}, row {self.first_row + row}: {what}")

    def refuse_type(self, expected: str) -> NoReturn:
        raise TypeError(f"column {self.name}: {expected} is needed, not {self.array.type}")

    def plain(self) -> ArrowColumn:
        """Replace dictionaries and views by plain arrays. Raises: ValueError if the plain array would be too large."""
        pa, array = self.pa, self.array
        self.require_possible_size()
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if pa.types.is_string_view(array.type):
            array = array.cast(pa.large_string())
        elif pa.types.is_binary_view(array.type):
            array = array.cast(pa.large_binary())
        return self._replace(array=array)

    def require_possible_size(self) -> None:
        """Raise ValueError if the values have 2 GiB or more, although many rows may share the bytes of one."""
        pa, array = self.pa, self.array
        if pa.types.is_dictionary(array.type):
            total = dictionary_bytes(array, pa)
        elif pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type):
            total = view_bytes(array)
        else:
            return
        if total > INT_MAX:
            self.refuse_size(total, "bytes")

    def refuse_size(self, total: int, of_what: str) -> NoReturn:
        rows = f"rows {self.first_row} to {self.first_row + len(self.array)}"
        raise ValueError(f"column {self.name}, {rows}: have {total:,} {of_what}, and {INT_MAX:,} are the most at once")

    def read(self) -> Any:
        field = MESSAGE_FIELDS[BATCH_NAMES[self.name]]
        if field.format == "+l":
            return self.strings_of_lists()
        if field.format == "+m":
            return self.properties()
        if self.name == "body":
            self.refuse_nulls("is null: a body that could not be decoded is stored by columns rawBody and sysFlag")
        elif not field.nullable or field.format.startswith("ts"):
            self.refuse_nulls("is null")
        if field.format in ("u", "z"):
            return StringColumn(*parts_of(self.strings())) if field.format == "u" else self.bodies()
        if field.format.startswith("ts"):
            return self.millis()
        if field.format == "b":
            return self.booleans()
        return self.integers(np.dtype(np.int32 if field.format == "i" else np.int64))

    def refuse_nulls(self, what: str) -> None:
        if self.array.null_count:
            self.refuse(first_null(self.array, self.pa), what)

    # ---- numbers ---------------------------------------------------------------------------------------------

    def integers(self, dtype: np.dtype[Any]) -> np.ndarray:
        if not self.pa.types.is_integer(self.array.type):
            self.refuse_type(f"an integer that fits {dtype}")
        values: np.ndarray = self.array.to_numpy(zero_copy_only=False)
        if not np.can_cast(values.dtype, dtype):
            least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
            if len(values) and not least <= int(values.min()) <= int(values.max()) <= most:
                row = next(i for i, value in enumerate(values.tolist()) if not least <= value <= most)
                self.refuse(row, f"{values[row]} does not fit {dtype}")
        return np.ascontiguousarray(values, dtype)

    def booleans(self) -> np.ndarray:
        if not self.pa.types.is_boolean(self.array.type):
            self.refuse_type("a boolean")
        values: np.ndarray = self.array.to_numpy(zero_copy_only=False)
        return values

    def millis(self) -> np.ndarray:
        """Epoch milliseconds, of times or as they are. A time without a zone is in UTC."""
        if not self.pa.types.is_timestamp(self.array.type):
            return self.integers(np.dtype(np.int64))
        unit = self.array.type.unit
        values = self._replace(array=self.array.cast(self.pa.int64())).integers(np.dtype(np.int64))
        if unit != "s":
            return values // {"ms": 1, "us": 1000, "ns": 1_000_000}[unit]
        beyond = (values > LONG_MAX // 1000) | (values < -(LONG_MAX // 1000))
        if beyond.any():
            self.refuse(int(beyond.argmax()), f"{values[beyond.argmax()]} s does not fit int64 in milliseconds")
        return values * 1000

    # ---- strings and bytes -----------------------------------------------------------------------------------

    def strings(self) -> Any:
        kind, types = self.array.type, self.pa.types
        if not (types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind)):
            self.refuse_type("string")
        return self.array.cast(self.pa.string())

    def bodies(self) -> BinaryColumn[bytes | None]:
        """Bytes; a string is its UTF-8."""
        kind, types = self.array.type, self.pa.types
        if not (types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)):
            return BinaryColumn(*parts_of(self.strings()))
        return BinaryColumn(*parts_of(self.array.cast(self.pa.binary())))

    # ---- lists and maps --------------------------------------------------------------------------------------

    def lists(self) -> tuple[np.ndarray, Any]:
        """Offsets and values of lists; one that is null is empty."""
        lengths = import_extra("pyarrow.compute", "arrow").list_value_length(self.array).fill_null(0).to_numpy()
        total = int(lengths.sum(dtype=np.int64))
        if total > INT_MAX:
            self.refuse_size(total, "values of lists")
        return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), self.array.flatten()

    def values(self, array: Any, offsets: np.ndarray, what: str) -> StringColumn[str]:
        """The strings in lists. Row numbers are those of the lists."""
        column = self._replace(array=array).plain()
        if column.array.null_count:
            self.refuse(row_of(offsets, first_null(column.array, self.pa)), f"{what} is null")
        return StringColumn(*parts_of(column.strings()))

    def strings_of_lists(self) -> ListColumn:
        if not is_list(self.array.type, self.pa):
            self.refuse_type("a list of strings")
        offsets, values = self.lists()
        return ListColumn(offsets, self.values(values, offsets, "a key"))

    def properties(self) -> MapColumn:
        pa, kind = self.pa, self.array.type
        if pa.types.is_struct(kind):
            return self.properties_of_struct()
        if pa.types.is_map(kind):
            pair = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
            return self._replace(array=self.array.cast(pa.list_(pair))).properties()
        if not is_list(kind, pa):
            self.refuse_type(PROPERTIES)
        offsets, pairs = self.lists()
        if pa.types.is_struct(pairs.type) and pairs.type.num_fields == 2:
            names, values = pairs.flatten()
        elif pa.types.is_null(pairs.type):
            names = values = pairs
        elif is_list(pairs.type, pa):
            lengths, texts = self._replace(array=pairs).lists()
            if (np.diff(lengths) != 2).any():
                self.refuse(row_of(offsets, int(np.argmax(np.diff(lengths) != 2))), "a property is no pair")
            names, values = texts.take(pa.array(lengths[:-1])), texts.take(pa.array(lengths[:-1] + 1))
        else:
            self.refuse_type(PROPERTIES)
        return MapColumn(offsets, self.values(names, offsets, "a name"), self.values(values, offsets, "a value"))

    def properties_of_struct(self) -> MapColumn:
        """A field is a property of the rows where it is not null."""
        pa, n = self.pa, len(self.array)
        pairs = zip(self.array.type, self.array.flatten(), strict=True)
        given = [(field.name, array) for field, array in pairs if not pa.types.is_null(array.type)]
        names = [name for name, _ in given]
        fields = [self._replace(array=array).plain().strings() for _, array in given]
        present = np.array([field.is_valid().to_numpy(zero_copy_only=False) for field in fields], bool)
        present = present.reshape(len(fields), n).T
        rows, which = np.nonzero(present)
        values = pa.concat_arrays(fields).take(pa.array(which * n + rows)) if fields else pa.array([], pa.string())
        offsets = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int32)
        keys = pa.array(names, pa.string()).take(pa.array(which))
        return MapColumn(offsets, self.values(keys, offsets, ""), self.values(values, offsets, ""))


def is_list(kind: Any, pa: Any) -> bool:
    types = pa.types
    tests = types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view
    return any(test(kind) for test in tests)


def first_null(array: Any, pa: Any) -> int:
    """Return the first row that is null, of an array that has one."""
    if pa.types.is_null(array.type):  # it has no buffers that could prove its length
        return 0
    return int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))


def dictionary_bytes(array: Any, pa: Any) -> int:
    """Return how many bytes the values of a dictionary array have together, 0 unless they are strings or bytes."""
    kind = array.type.value_type
    binary = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    if not any(test(kind) for test in binary) or not len(array.dictionary):
        return 0
    compute = import_extra("pyarrow.compute", "arrow")
    lengths = compute.binary_length(array.dictionary).fill_null(0).to_numpy().astype(np.int64)
    if int(lengths.max()) * len(array) <= INT_MAX:
        return 0
    return int(lengths[array.indices.drop_null().to_numpy()].sum())


def view_bytes(array: Any) -> int:
    """Return how many bytes the values of an array of views have together. The length is the first int32 of a view."""
    if not len(array):
        return 0
    lengths = np.frombuffer(array.buffers()[1], np.int32)[array.offset * 4 :: 4][: len(array)]
    if array.null_count:  # behind a null there may be any length
        lengths = lengths[array.is_valid().to_numpy(zero_copy_only=False)]
    return int(lengths.sum(dtype=np.int64))


def row_of(offsets: np.ndarray, place: int) -> int:
    """The row of lists that has a value."""
    return int(np.searchsorted(offsets, place, "right")) - 1


def parts_of(array: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return offsets, data and valid of an array of string or binary, which are not copied."""
    n = len(array)
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int32, n + 1, array.offset * 4) if n else np.zeros(1, np.int32)
    values = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    return bounds - bounds[0], values[bounds[0] : bounds[-1]], valid
