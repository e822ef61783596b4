"""Arrow data that contradicts itself: in files whose metadata lie, and through the Arrow C data interface."""

import ctypes
import io

import numpy as np
import pyarrow as pa

CAPSULE_NEW = ctypes.pythonapi.PyCapsule_New
CAPSULE_NEW.restype = ctypes.py_object
CAPSULE_NEW.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class ArrowSchema(ctypes.Structure):
    """A schema of the C data interface."""


class ArrowArray(ctypes.Structure):
    """An array of the C data interface."""


RELEASE_SCHEMA = ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowSchema))
RELEASE_ARRAY = ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowArray))
ArrowSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowSchema))),
    ("dictionary", ctypes.POINTER(ArrowSchema)),
    ("release", RELEASE_SCHEMA),
    ("private_data", ctypes.c_void_p),
]
ArrowArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowArray))),
    ("dictionary", ctypes.POINTER(ArrowArray)),
    ("release", RELEASE_ARRAY),
    ("private_data", ctypes.c_void_p),
]


@RELEASE_SCHEMA
def release_schema(schema):
    schema.contents.release = RELEASE_SCHEMA()


@RELEASE_ARRAY
def release_array(array):
    array.contents.release = RELEASE_ARRAY()


class CArray:
    """An array of the C data interface with any contents, as a producer that is no pyarrow could give it.

    Parameters: buffers: NumPy arrays, or None for NULL. n_buffers: the number that is claimed, if it is another.
    has_dictionary: False for a schema with a dictionary and an array without one.
    """

    def __init__(
        self,
        form,
        length,
        buffers,
        *,
        name="",
        children=(),
        dictionary=None,
        null_count=0,
        offset=0,
        n_buffers=None,
        has_dictionary=True,
    ):
        self.kept = buffers, children, dictionary
        pointers = [None if buffer is None else buffer.ctypes.data for buffer in buffers]
        self.buffers = (ctypes.c_void_p * max(len(pointers), 1))(*pointers)
        n_buffers = len(buffers) if n_buffers is None else n_buffers
        self.schema = ArrowSchema(form.encode(), name.encode(), None, 2, len(children), None, None, release_schema)
        self.array = ArrowArray(
            length, null_count, offset, n_buffers, len(children), self.buffers, None, None, release_array
        )
        self.schema.children = (ctypes.POINTER(ArrowSchema) * len(children))(
            *(ctypes.pointer(child.schema) for child in children)
        )
        self.array.children = (ctypes.POINTER(ArrowArray) * len(children))(
            *(ctypes.pointer(child.array) for child in children)
        )
        if dictionary is not None:
            self.schema.dictionary = ctypes.pointer(dictionary.schema)
        if dictionary is not None and has_dictionary:
            self.array.dictionary = ctypes.pointer(dictionary.array)

    def __arrow_c_array__(self, requested_schema=None):
        return (
            CAPSULE_NEW(ctypes.addressof(self.schema), b"arrow_schema", None),
            CAPSULE_NEW(ctypes.addressof(self.array), b"arrow_array", None),
        )


DATA = np.frombuffer(b"abcdefgh" * 8, np.uint8)


def int32(*values):
    return np.array(values, np.int32)


def view(length, buffer=0, start=0):
    """Three string views. The first one has this length and place."""
    views = np.zeros(12, np.int32)
    views[0], views[2], views[3] = length, buffer, start
    return views


def one_wild_offset():
    """Offsets that leave the data where a kernel ends a block of rows, and come back."""
    offsets = np.arange(70_001, dtype=np.int32) // 2
    offsets[65_536] = 2**31 - 1
    return offsets


def texts(name, **lies):
    given = {"form": "u", "length": 3, "buffers": [None, int32(0, 1, 2, 3), DATA]} | lies
    return CArray(name=name, **given)


def values():
    return CArray("u", 2, [None, int32(0, 1, 2), DATA])


SIZES = np.array([len(DATA)], np.int64)
# What a column of strings can say that is seen without knowing how large its buffers are.
C_LIES = {
    "offsets that go down": lambda name: texts(name, buffers=[None, int32(0, 4, 2, 6), DATA]),
    "a first offset below zero": lambda name: texts(name, buffers=[None, int32(-5, 4, 5, 6), DATA]),
    "a last offset below zero": lambda name: texts(name, buffers=[None, int32(0, 4, 4, -6), DATA]),
    "an offset beyond the last": lambda name: texts(name, buffers=[None, int32(0, 2**31 - 1, 2**31 - 1, 6), DATA]),
    "a wild offset at the end of a block": lambda name: texts(
        name, length=70_000, buffers=[None, one_wild_offset(), np.zeros(35_000, np.uint8)]
    ),
    "no offsets": lambda name: texts(name, buffers=[None, None, DATA]),
    "no data": lambda name: texts(name, buffers=[None, int32(0, 1, 2, 3), None]),
    "a length below zero": lambda name: texts(name, length=-3),
    "an impossible length": lambda name: texts(name, length=2**62),
    "an impossible offset": lambda name: texts(name, offset=2**62),
    "an offset of the array below zero": lambda name: texts(name, offset=-2, buffers=[None, int32(9, 9, 9, 3), DATA]),
    "too few buffers": lambda name: texts(name, n_buffers=2),
    "no buffers": lambda name: texts(name, n_buffers=0),
    "fewer than no buffers": lambda name: texts(name, form="vu", n_buffers=-5),
    "nulls without number": lambda name: texts(name, form="n", length=2**55, buffers=[]),
    "a view into no buffer": lambda name: texts(name, form="vu", buffers=[None, view(20, buffer=7), DATA, SIZES]),
    "a view beyond its buffer": lambda name: texts(name, form="vu", buffers=[None, view(20, start=60), DATA, SIZES]),
    "a view below zero": lambda name: texts(name, form="vu", buffers=[None, view(-20), DATA, SIZES]),
    "a buffer of views below zero": lambda name: texts(name, form="vu", buffers=[None, view(20), DATA, -SIZES]),
    "a missing buffer of views": lambda name: texts(name, form="vu", buffers=[None, view(20), None, SIZES]),
    "no views": lambda name: texts(name, form="vu", buffers=[None, None, DATA, SIZES]),
    "an index beyond the dictionary": lambda name: texts(
        name, form="i", buffers=[None, int32(0, 99, -1)], dictionary=values()
    ),
    "no indices": lambda name: texts(name, form="i", buffers=[None, None], dictionary=values()),
    "no dictionary": lambda name: texts(
        name, form="i", buffers=[None, int32(0, 1, 1)], dictionary=values(), has_dictionary=False
    ),
}


def c_table(topic):
    """A table whose column topic lies, and whose bodies do not."""
    n = topic.array.length if 0 <= topic.array.length < 10**6 else 3
    body = CArray("z", topic.array.length, [None, np.arange(n + 1, dtype=np.int32), np.zeros(n, np.uint8)], name="body")
    return CArray("+s", topic.array.length, [None], children=[topic, body])


# ---- files -------------------------------------------------------------------------------------------------


def ipc_bytes(batch, *, stream=False, compression=None):
    out = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(out, batch.schema, options=options) as writer:
        writer.write(batch)
    return out.getvalue()


def short_offsets(kind, n=3_000_000):
    """An Arrow file with a column of strings whose offsets are for fewer rows than its length says.

    Its batch says n rows, and so does each of its field nodes: the numbers are found by their value.
    """
    rows = 4_001
    strings = pa.array([f"key {i}" for i in range(rows)]).cast(kind)
    data = ipc_bytes(pa.record_batch({"topic": strings, "body": strings, "phyOffset": pa.array(range(rows))}))
    return data.replace(rows.to_bytes(8, "little"), n.to_bytes(8, "little"))


def short_batch(kind=None):
    return pa.ipc.open_file(pa.BufferReader(short_offsets(kind or pa.string()))).get_batch(0)
