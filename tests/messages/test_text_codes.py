"""TextCodes: equal texts get equal numbers in all batches, other texts get others."""

import random

import numpy as np

from rocketstore.kernels.value_columns import StringColumn
from rocketstore.messages.text_codes import TextCodes


def column_of(texts, before=b"") -> StringColumn:
    data = [b"" if text is None else text.encode() for text in texts]
    offsets = np.cumsum([len(before), *map(len, data)]).astype(np.int32)
    valid = np.array([text is not None for text in texts], bool)
    return StringColumn(offsets, np.frombuffer(before + b"".join(data), np.uint8), valid)


def test_numbers_are_those_of_a_dictionary(seed):
    rng = random.Random(seed)
    words = [None, "", "a", "b", "ab", "ba", "Aa", "BB", "é", "x" * 300, "x" * 299 + "y", "\0", "\0\0"]
    words += ["".join(rng.choices("ab\0", k=rng.randrange(9))) for _ in range(50)]
    codes, known = TextCodes(), {}
    for _ in range(20):
        texts = rng.choices(words, k=rng.randrange(40))
        found = codes.find(column_of(texts, b"?" * rng.randrange(3))).tolist()
        assert [codes.names[code] for code in found] == texts
        for text, code in zip(texts, found, strict=True):
            assert known.setdefault(text, code) == code
    assert len(codes.names) == len(set(codes.names)) == len(known)


def test_a_cleared_object_begins_again():
    codes = TextCodes()
    codes.find(column_of(["a", "b"]))
    codes.clear()
    assert codes.find(column_of(["b", None])).tolist() != []
    assert set(codes.names) == {"b", None}
