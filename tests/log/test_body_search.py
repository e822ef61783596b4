"""Conditions on bodies choose what plain Python finds in them, compressed or not, and in inner batches."""

import random
import re

import numpy as np
import pytest
from support.damages import change_log
from support.puts import open_store

import rocketstore
from rocketstore import BodyContains, BodyMatches, Message
from rocketstore.kernels.record_filter import BodyLiterals, find_literal

PIECES = [b"a", b"ab", b"\x00", b"\xff\xfe", "größe".encode(), b'{"k": ', b"\n", b"order", b" "]


def make_store(root, drawn, count=200):
    with open_store(root) as store:
        store.create_topic("Batches", 1, queue_type="BatchCQ")
        for i in range(count):
            body = b"".join(drawn.choices(PIECES, k=drawn.randrange(12)))
            if i % 17 == 0:
                parts = [Message("Batches", body + b"%d" % n) for n in range(3)]
                store.put_message(Message.batch("Batches", parts, queue_id=0, compress=drawn.choice([None, "zlib"])))
            else:
                store.put_message(Message("Orders", body, compress=drawn.choice([None, None, "zlib"])))
    return root


def offsets_of(scan):
    return [offset for batch in scan for offset in batch.phy_offset.tolist()]


def test_drawn_literals_are_found_where_python_finds_them(tmp_path, seed):
    drawn = random.Random(seed)
    with rocketstore.open(make_store(tmp_path / "store", drawn)) as store:
        messages = list(store.scan().head(1000))
        for _ in range(200):
            literal = b"".join(drawn.choices(PIECES, k=drawn.randrange(1, 4)))
            expected = [message.phy_offset for message in messages if literal in message.body]
            scan = store.scan(columns="phy_offset", batch_size=37, threads=drawn.choice([1, 2]))
            assert offsets_of(scan.filtered(BodyContains(literal))) == expected


def test_several_literals_must_all_be_there(tmp_path, seed):
    drawn = random.Random(seed)
    with rocketstore.open(make_store(tmp_path / "store", drawn)) as store:
        found = store.scan().filtered(BodyContains("order"), BodyContains(b"\x00"), BodyMatches("a"))
        expected = [m.phy_offset for m in store.scan().head(999) if {b"order", b"\x00", b"a"} == {
            part for part in (b"order", b"\x00", b"a") if part in m.body}]  # fmt: skip
        assert offsets_of(found) == expected
        many = [BodyContains("a") for _ in range(20)]  # more than a scanner searches
        assert offsets_of(store.scan().filtered(*many)) == offsets_of(store.scan().filtered(many[0]))


def test_patterns_match_where_python_matches_them(tmp_path, seed):
    drawn = random.Random(seed)
    with rocketstore.open(make_store(tmp_path / "store", drawn)) as store:
        messages = list(store.scan().head(1000))
        for pattern in ["^a", r"\w{4}", "größe$", "(?i)ORDER", r"(ab){2}", "[\udc80-\udcff]", "^$", r"a\nb?"]:
            expected = [
                message.phy_offset
                for message in messages
                if re.search(pattern, message.body.decode("utf-8", "surrogateescape"))
            ]
            assert offsets_of(store.scan().filtered(BodyMatches(pattern))) == expected


def test_a_body_that_cannot_be_decompressed_is_counted(tmp_path):
    root = tmp_path / "store"
    with open_store(root) as store:
        store.put_message(Message("T", b"order " * 50, compress="zlib"))
        store.put_message(Message("T", b"order"))
        first = store.scan().head(1)[0]
    change_log(root, 0, first.phy_offset + 88, b"\0\0\0\0")
    condition = BodyContains("order")
    with rocketstore.open(root) as store:
        assert store.scan(columns="queue_id").filtered(condition).count() == 1
    assert condition.bad_bodies.count == 1


@pytest.mark.parametrize("literal", [b"", ""])
def test_an_empty_literal_is_refused(literal):
    with pytest.raises(ValueError, match="empty"):
        BodyContains(literal)


def test_wrong_conditions_are_refused():
    with pytest.raises(TypeError, match="bytes or a text"):
        BodyContains(5)
    with pytest.raises(ValueError, match=r"'\(': missing \)"):
        BodyMatches("(")
    for literals in ([], [b""], ["text"], [b"a"] * 17):
        with pytest.raises(ValueError, match=r"literals|bytes"):
            BodyLiterals(literals)
    with pytest.raises(ValueError, match="empty"):
        find_literal(np.array([0], np.int32), np.zeros(0, np.uint8), b"")


@pytest.mark.parametrize("offsets", [[0, 9], [2, 1], [-1, 1], [1, 2, 0]])
def test_offsets_outside_of_the_data_are_refused(offsets):
    with pytest.raises(IndexError, match="value"):
        find_literal(np.array(offsets, np.int32), np.zeros(3, np.uint8), b"\0")


def test_literals_are_found_at_the_ends_of_values():
    data = np.frombuffer(b"xabyabab", np.uint8)
    offsets = np.array([0, 2, 3, 3, 6, 8], np.int32)  # xa, b, "", yab, ab
    assert find_literal(offsets, data, b"ab").tolist() == [False, False, False, True, True]
    assert find_literal(offsets, data, b"b").tolist() == [False, True, False, True, True]
