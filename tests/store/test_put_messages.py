"""Many messages in one call: the same bytes as one by one, all or none, batches of clients, and what may be given."""

import itertools
import random

import pytest
from reference.commit_log import read_files
from reference.record import blank
from support.broker_tables import read_topics
from support.puts import (
    BEGIN,
    PARTS,
    PREPARED,
    PROFILES,
    TRANSACTIONS,
    Pair,
    config_of,
    draw_plain,
    draw_properties,
    files_under,
    index_files,
    message_of,
    open_store,
    placed,
)

import rocketstore
from rocketstore import Message, PutMessageError, PutMessagesResult
from rocketstore.messages.system_flags import INNER_BATCH

RELEASES = ["4.7.0", "4.8.0", "4.9.1", "4.9.2", "4.9.3", "5.1.4", "5.2.0", "5.3.3", "5.4.0", "5.5.0"]


# ---- byte for byte -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_every_file_is_the_reference_s_byte_for_byte(profile, seed, tmp_path):
    draw, options = PROFILES[profile]
    rng = random.Random(f"{seed} puts {profile}")
    with Pair(tmp_path / "store", **options) as pair:
        for count in (0, 1, 2, 100, 30):
            pair.put_messages([draw(rng) for _ in range(count)])
            pair.put(draw(rng))
            pair.time += rng.choice([0, 1, 999, 60_000, -5000])


@pytest.mark.parametrize("release", RELEASES)
def test_client_batches_are_the_reference_s_byte_for_byte(release, seed, tmp_path):
    """Corner 28."""
    rng = random.Random(f"{seed} batch {release}")
    with Pair(tmp_path / "store", compat=release) as pair:
        for _ in range(25):
            batch = {**draw_plain(rng), "body": b"", "sys_flag": rng.choice([0, 0x2, 0x40]), "reconsume_times": 3}
            batch["properties"] = rng.choice([{}, draw_properties(rng)])
            rows = [
                {**draw_plain(rng), "flag": rng.getrandbits(31), "properties": rng.choice([{}, draw_properties(rng)])}
                for _ in range(rng.randrange(5))
            ]
            pair.put_batch(batch, rows)
            pair.put(draw_plain(rng))
            pair.time += 1


def test_client_batches_with_a_crc_property_are_the_reference_s(seed, tmp_path):
    rng = random.Random(f"{seed} crc batch")
    with Pair(tmp_path / "store", enabled_append_prop_crc=True) as pair:
        for _ in range(15):
            pair.put_batch(draw_plain(rng), [draw_plain(rng) for _ in range(rng.randrange(1, 6))])


def test_the_files_are_those_of_messages_put_one_by_one(seed, tmp_path):
    rows = [draw_plain(random.Random(f"{seed} {i}")) for i in range(300)]
    messages = [message_of(row) for row in rows]
    with open_store(tmp_path / "one") as one, open_store(tmp_path / "all") as together:
        singles = [one.put_message(message, store_timestamp=BEGIN) for message in messages]
        result = together.put_messages(messages, store_timestamp=BEGIN)
        assert list(result) == singles
    assert files_under(tmp_path / "all") == files_under(tmp_path / "one")
    assert index_files(tmp_path / "all") == index_files(tmp_path / "one")


# ---- batches -----------------------------------------------------------------------------------------------


def test_a_batch_is_consecutive_and_has_one_store_time(tmp_path):
    """Corner 29."""
    with open_store(tmp_path / "store") as store:
        store.put_message(Message("T", b"", queue_id=1))
        result = store.put_batch(Message("T", b"", queue_id=1), [Message("any", b"%d" % i) for i in range(5)])
        assert result.queue_offsets.tolist() == [1, 2, 3, 4, 5]
        assert set(result.queue_ids.tolist()) == {1}
        assert len(set(result.store_timestamps.tolist())) == 1
        ends = result.phy_offsets + result.sizes
        assert result.phy_offsets[1:].tolist() == ends[:-1].tolist()
        assert {m.topic for m in store.get_message("T", 1, 0).messages} == {"T"}


def test_a_batch_without_a_queue_takes_one(tmp_path):
    with open_store(tmp_path / "store") as store:
        batches = [store.put_batch(Message("T", b""), [Message("T", b"")] * 3) for _ in range(5)]
        assert [set(result.queue_ids.tolist()) for result in batches] == [{0}, {1}, {2}, {3}, {0}]


def test_a_batch_that_does_not_fit_moves_whole_to_the_next_file(tmp_path):
    """Corner 12."""
    with open_store(tmp_path / "store") as store:
        first = store.put_message(Message("T", bytes(2000), queue_id=0))
        result = store.put_batch(Message("T", b"", queue_id=0), [Message("T", bytes(900))] * 3)
        size = 91 + 1 + 900
        assert result.phy_offsets.tolist() == [4096, 4096 + size, 4096 + 2 * size]
        assert result.queue_offsets.tolist() == [1, 2, 3]
        assert [m.phy_offset for m in store.get_message("T", 0, 1).messages] == result.phy_offsets.tolist()
    assert read_files(tmp_path / "store" / "commitlog")[0][first.size :] == blank(4096 - first.size)


@pytest.mark.parametrize(("left", "at"), [(8, 0), (7, 4096)])
def test_a_batch_leaves_8_bytes_of_a_file_or_goes_to_the_next(left, at, tmp_path):
    with open_store(tmp_path / "store") as store:
        before = store.put_message(Message("T", b"")).size if at else 0
        rest = 4096 - left - before - 3 * 92
        result = store.put_batch(Message("T", b"", queue_id=0), [Message("T", bytes(n)) for n in (0, rest, 0)])
        assert result.phy_offsets[0] == at
        assert int(result.phy_offsets[-1] + result.sizes[-1]) == at + 4096 - left - before


def test_a_batch_larger_than_a_file_is_refused(tmp_path):
    with open_store(tmp_path / "store") as store:
        with pytest.raises(PutMessageError) as refused:
            store.put_batch(Message("T", b"", queue_id=0), [Message("T", bytes(1000))] * 4)
        assert refused.value.status == "MESSAGE_ILLEGAL"
        assert store.commit_log.max_phy_offset == 0
        assert len(store.put_messages([Message("T", bytes(1000), queue_id=0)] * 4)) == 4


@pytest.mark.parametrize("head", [{"sys_flag": flag} for flag in TRANSACTIONS[1:]] + [{"delay_time_level": 1}])
def test_a_batch_with_a_transaction_type_or_a_delay_is_refused(head, tmp_path):
    with open_store(tmp_path / "store") as store:
        with pytest.raises(PutMessageError) as refused:
            store.put_batch(Message("T", b"", queue_id=0, **head), [Message("T", b"")])
        assert refused.value.status == "MESSAGE_ILLEGAL"
        assert store.commit_log.max_phy_offset == 0


@pytest.mark.parametrize(("flag", "properties"), [(INNER_BATCH, {}), (0, {"INNER_NUM": "1", "INNER_BASE": "0"})])
def test_a_batch_that_is_or_has_an_inner_batch_is_refused(flag, properties, tmp_path):
    with open_store(tmp_path / "store") as store:
        store.create_topic("T", 1, queue_type="BatchCQ")
        with pytest.raises(PutMessageError) as refused:
            store.put_batch(Message("T", b"", queue_id=0, sys_flag=flag), [Message("T", b"", properties=properties)])
        assert refused.value.status == "MESSAGE_ILLEGAL"
        assert store.commit_log.max_phy_offset == 0


def test_a_batch_with_a_body_that_does_not_decompress_is_refused(tmp_path):
    with open_store(tmp_path / "store") as store:
        with pytest.raises(PutMessageError, match=r"Message 'Bad'.* does not decompress with zlib") as refused:
            store.put_batch(Message("T", b"", queue_id=0), [Message("T", b""), Message("Bad", b"zz", sys_flag=1)])
        assert refused.value.status == "MESSAGE_ILLEGAL"
        assert store.commit_log.max_phy_offset == 0


def test_a_batch_of_more_than_max_message_size_is_refused(tmp_path):
    with open_store(tmp_path / "store", max_message_size=1000) as store:
        # As a client encodes them: 22 bytes each, and the bodies.
        assert len(store.put_batch(Message("T", b"", queue_id=0), [Message("T", bytes(478))] * 2)) == 2
        end = store.commit_log.max_phy_offset
        with pytest.raises(ValueError, match="1001"):
            store.put_batch(Message("T", b"", queue_id=0), [Message("T", bytes(478)), Message("T", bytes(479))])
        assert store.commit_log.max_phy_offset == end


def test_properties_of_a_batch_that_are_too_long_are_refused(tmp_path):
    with open_store(tmp_path / "store", mapped_file_size_commit_log=1 << 17) as store:
        message = Message("T", b"", properties={"a": "b" * 32765})
        with pytest.raises(ValueError, match="32768"):
            store.put_batch(Message("T", b"", queue_id=0), [Message("T", b""), message])
        assert store.commit_log.max_phy_offset == 0


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("4.7.0", b"a\x01b\x02"),
        ("4.8.0", b"a\x01b\x02c\x01d\x02"),
        ("4.9.2", b"a\x01bc\x01d"),
        ("4.9.3", b"a\x01b\x02c\x01d"),
        ("5.3.3", b"a\x01b\x02c\x01d\x02"),
        ("5.4.0", b"a\x01b\x02"),
        ("5.5.0", b"a\x01b\x02"),
    ],
)
def test_each_record_of_a_batch_has_the_batch_s_properties_or_not_by_release(release, expected, tmp_path):
    """Corner 28."""
    with open_store(tmp_path / "store", compat=release) as store:
        batch = Message("T", b"", queue_id=0, properties={"c": "d"})
        result = store.put_batch(batch, [Message("T", b"", properties={"a": "b"})])
    data = read_files(tmp_path / "store" / "commitlog")[0][: result.sizes[0]]
    assert data.endswith(len(expected).to_bytes(2, "big") + expected)


# ---- all or none -------------------------------------------------------------------------------------------


def test_nothing_is_written_if_one_message_is_refused(seed, tmp_path):
    rng = random.Random(f"{seed} refuse")
    bad = [
        Message("T", bytes(5000)),
        Message("T", bytes(5 << 20)),
        Message("..", b""),
        Message("主" * 100, b""),
        Message("T", b"", properties={"a": "b" * 32768}),
        Message("T", b"", born_host="nowhere"),
        Message("T", b"", queue_id=-1),
        Message("T", b"", flag=1 << 40),
        Message("T", b"", properties={"INNER_NUM": "1"}),
        Message.batch("T", [Message("T", b"x")]),
        Message("SCHEDULE_TOPIC_XXXX", b"", properties={"DELAY": "x"}),
    ]
    with open_store(tmp_path / "store") as store:
        for message, put in itertools.product(bad, (store.put_messages, lambda rows: store.put_messages(tuple(rows)))):
            rows = [message_of(draw_plain(rng)) for _ in range(rng.randrange(1, 20))]
            rows.insert(rng.randrange(len(rows) + 1), message)
            with pytest.raises((ValueError, TypeError)):
                put(rows)
            assert store.commit_log.max_phy_offset == 0
        assert store.put_messages([Message("T", b"", queue_id=0)] * 3).queue_offsets.tolist() == [0, 1, 2]


def test_nothing_is_written_if_one_message_is_refused_behind_one_for_light_queues_or_an_inner_batch(tmp_path):
    with open_store(tmp_path / "store", enable_lmq=True, enable_multi_dispatch=True) as store:
        store.create_topic("Batched", 1, queue_type="BatchCQ")
        special = [
            Message("T", b"", queue_id=0, properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}),
            Message.batch("Batched", [Message("Batched", b"x")] * 3, queue_id=0),
        ]
        for message in special:
            with pytest.raises(PutMessageError):
                store.put_messages([message, Message("T", bytes(5000))])
            assert store.commit_log.max_phy_offset == 0
        result = store.put_messages(special + special)
        assert result.queue_offsets.tolist() == [0, 0, 1, 3]
        assert [
            store.look_message_by_offset(int(at)).properties.get("INNER_MULTI_QUEUE_OFFSET")
            for at in result.phy_offsets
        ] == ["0", None, "1", None]


def test_a_refused_batch_makes_no_topic_of_its_other_messages(tmp_path):
    light = Message("Light", b"", queue_id=0, properties={"INNER_MULTI_DISPATCH": "%LMQ%a"})
    with open_store(tmp_path / "store", enable_lmq=True) as store:
        for message in (Message("New", b"", queue_id=0), light):
            with pytest.raises(PutMessageError):
                store.put_messages([message, Message("T", b"", queue_id=-1)])
        assert store.commit_log.max_phy_offset == 0
        store.create_topic("New", queue_type="BatchCQ")
    assert list(read_topics(tmp_path / "store")) == ["New"]


def test_nothing_is_written_if_a_message_behind_one_for_light_queues_has_no_store_time(tmp_path):
    light = Message("T", b"", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"})
    light.store_timestamp = BEGIN
    with open_store(tmp_path / "store", enable_lmq=True) as store:
        with pytest.raises(ValueError, match="a message has none"):
            store.put_messages([light, Message("T", b"")], store_timestamp="given")
        assert store.commit_log.max_phy_offset == 0


@pytest.mark.parametrize("columns", [["topic", "body", "properties"], ["topic", "raw_body", "sys_flag"]])
def test_messages_that_were_read_in_part_are_put_beside_those_for_light_queues(columns, tmp_path):
    light = Message("T", b"x", queue_id=0, properties={"INNER_MULTI_DISPATCH": "%LMQ%a"})
    with open_store(tmp_path / "store", enable_lmq=True) as store:
        store.put_message(light)
        (read,) = next(iter(store.scan(columns=columns)))
        assert store.put_messages([light, read]).queue_ids.tolist() == [0, 0]
        store.put_message(read)
        assert [row.body for batch in store.scan() for row in batch] == [b"x"] * 4
        with pytest.raises(PutMessageError, match="a body of"):
            store.put_message(Message.of_fields({**read.__dict__, "raw_body": bytes(5 << 20), "body": bytes(5 << 20)}))


def test_a_message_for_light_queues_takes_one_turn_among_many_and_alone(tmp_path):
    rows = [Message("T", b"", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}), Message("T", b"")]
    with open_store(tmp_path / "store", enable_lmq=True, default_topic_queue_nums=3) as store:
        queue_ids = [store.put_messages(rows[:count]).queue_ids.tolist() for count in (1, 2, 1, 2)]
        assert queue_ids == [[0], [1, 2], [0], [1, 2]]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (Message("T", bytes(5000)), "topic 'T' is refused: .* bytes do not fit a file of 4096"),
        (Message("T", bytes(5 << 20)), "topic 'T' is refused: a body of 5242880 bytes"),
        (Message("T", b"", properties={"a": "b" * 32768}), "topic 'T' is refused: properties of 32771 bytes"),
        (Message("T", b"", flag=1 << 40), "too large to convert to int32_t"),
        (Message("T", b"", properties={"INNER_NUM": "1"}), "INNER_NUM"),
    ],
)
@pytest.mark.parametrize("row", [0, 4, 4999])
def test_what_one_message_of_many_is_refused_for_says_which(row, bad, said, tmp_path):
    rows = [Message("Other", b"x", queue_id=0)] * row + [bad, bad]
    with open_store(tmp_path / "store", mapped_file_size_commit_log=4096) as store:
        for given in (rows, iter(rows)):
            with pytest.raises(ValueError, match=f"^row {row}: .*{said}"):
                store.put_messages(given)


def test_what_a_row_of_a_table_is_refused_for_says_which(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    part = pa.table({"topic": ["Other"] * 3, "body": [b""] * 3})
    table = pa.concat_tables([part, part, pa.table({"topic": ["Other", "T"], "body": [b"", bytes(5000)]})])
    said = r"^row 7: .*topic 'T' is refused: .* bytes do not fit a file of 4096"
    with (
        open_store(tmp_path / "store", mapped_file_size_commit_log=4096) as store,
        pytest.raises(PutMessageError, match=said),
    ):
        store.put_messages(table)


# ---- what may be given -------------------------------------------------------------------------------------


def test_an_iterator_is_consumed_part_by_part(tmp_path):
    with open_store(tmp_path / "store", mapped_file_size_commit_log=1 << 20) as store:
        result = store.put_messages(Message("T", b"%d" % i, queue_id=0) for i in range(10_000))
        assert result.queue_offsets.tolist() == list(range(10_000))
        assert store.consume_queue("T", 0).max_queue_offset == 10_000
        bodies = (m.body for batch in store.scan() for m in batch)
        assert all(body == b"%d" % i for i, body in enumerate(bodies))


def test_nothing_may_be_given(tmp_path):
    with open_store(tmp_path / "store") as store:
        for nothing in ([], (), iter(()), (m for m in ())):
            result = store.put_messages(nothing)
            assert len(result) == 0
            assert isinstance(result, PutMessagesResult)
        assert len(store.put_batch(Message("T", b"", queue_id=0), [])) == 0
    assert files_under(tmp_path / "store", *PARTS) == {}


@pytest.mark.parametrize("wrong", ["abc", b"abc", None, 7, [1], ["T"], Message("T", b"")])
def test_an_argument_that_is_no_sequence_of_messages_is_a_type_error(wrong, tmp_path):
    with open_store(tmp_path / "store") as store:
        with pytest.raises(TypeError):
            store.put_messages(wrong)
        assert store.commit_log.max_phy_offset == 0


def filled(root, seed, **options):
    """A store with plain messages of all fields that a table has, and its reader."""
    rng = random.Random(f"{seed} filled")
    with open_store(root, **options) as store:
        for i in range(60):
            properties = {name: value for name, value in draw_properties(rng).items() if value}  # no others are read
            fields = {**draw_plain(rng), "properties": properties, "flag": i, "reconsume_times": i}
            fields["sys_flag"] = rng.choice(TRANSACTIONS)
            store.put_message(message_of(fields), store_timestamp=BEGIN + i)
    return rocketstore.open(root, config=config_of(**options))


@pytest.mark.parametrize("raw", [True, False])
def test_a_message_batch_can_be_put_as_it_was_read(raw, seed, tmp_path):
    with filled(tmp_path / "source", seed, store_host="1.2.3.4:5") as source, open_store(tmp_path / "copy") as copy:
        columns = [*next(iter(source.scan())).columns, "raw_body"] if raw else None
        for batch in source.scan(columns=columns, batch_size=7):
            result = copy.put_messages(batch, store_timestamp="given")
            assert result.phy_offsets.tolist() == batch.phy_offset.tolist()
    assert files_under(tmp_path / "copy") == files_under(tmp_path / "source")


def test_an_arrow_table_can_be_put_as_it_was_read(seed, tmp_path):
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    with filled(tmp_path / "source", seed, store_host="1.2.3.4:5") as source:
        table = source.scan().to_arrow()
        inputs = {
            "table": table,
            "reader": table.to_reader(max_chunksize=7),
            "batch": pa.RecordBatch.from_pylist(table.to_pylist(), schema=table.schema),
        }
        for name, given in inputs.items():
            with open_store(tmp_path / name) as copy:
                assert len(copy.put_messages(given, store_timestamp="given")) == 60
            assert files_under(tmp_path / name) == files_under(tmp_path / "source"), name


# ---- results -----------------------------------------------------------------------------------------------


def test_results_are_columns_and_rows(tmp_path):
    with open_store(tmp_path / "store", store_host="10.0.0.1:1") as store:
        result = store.put_messages([Message("T", bytes(i), queue_id=i) for i in range(4)], store_timestamp=BEGIN)
    types = {name: getattr(result, name).dtype.name for name in vars(result) if name != "store_hosts"}
    assert types == {
        "phy_offsets": "int64",
        "sizes": "int32",
        "queue_ids": "int32",
        "queue_offsets": "int64",
        "store_timestamps": "int64",
    }
    assert placed(result[2]) == (92 + 93, 94, 2, 0)
    assert result[-1] == result[3]
    assert [*result[1:3]] == [result[1], result[2]]
    assert not result[4:]
    assert result[0].msg_id == "0A0000010000000100000000" + "00000000"
    with pytest.raises(IndexError):
        result[4]


def test_prepared_messages_take_no_queue_offset_among_others(tmp_path):
    """Corner 15."""
    with open_store(tmp_path / "store") as store:
        flags = [0, PREPARED, 0, PREPARED, 0]
        result = store.put_messages([Message("T", b"", queue_id=0, sys_flag=flag) for flag in flags])
        assert result.queue_offsets.tolist() == [0, 0, 1, 0, 2]
        assert store.consume_queue("T", 0)[0:3].phy_offsets.tolist() == result.phy_offsets[::2].tolist()


def test_many_messages_go_over_many_files(tmp_path):
    with open_store(tmp_path / "store") as store:
        result = store.put_messages([Message("T", bytes(1500), queue_id=0)] * 50)
        assert result.phy_offsets.tolist() == [4096 * (i // 2) + 1592 * (i % 2) for i in range(50)]
        assert [m.phy_offset for batch in store.scan() for m in batch] == result.phy_offsets.tolist()


@pytest.mark.parametrize(
    ("wrong", "shown"),
    [
        ({"body": {"a": 1}}, r"row 1: body=\{'a': 1\}: bytes or a str were expected"),
        ({"keys": 5}, "row 1: keys=5: a str or a list of str was expected"),
        ({"tags": ["a"]}, r"row 1: tags=\['a'\]: a str was expected"),
        ({"queue_id": "1"}, "row 1: queue_id='1': an integer was expected"),
        ({"body": None}, "row 1: a message needs topic and body, and this one has topic$"),
        ({1: 2}, "row 1: there is no column '1'"),
        ({"properties": {"a": 1}}, r"row 1: properties\['a'\]=1: a str was expected"),
        ({"queueId": 1, "queue_id": 2}, "row 1: 'queueId' and 'queue_id' are the same column: give one of them"),
        ({"body": None, "raw_body": b"x"}, "row 1: raw_body needs sys_flag"),
        ({"raw_body": "x", "sys_flag": 0}, "row 1: raw_body='x': bytes were expected"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_wrong_value_of_a_dict_names_its_row_and_column(wrong, shown, tmp_path):
    row = {"topic": "T", "body": b"x"}
    with open_store(tmp_path / "store") as store:
        with pytest.raises(TypeError, match=shown):
            store.put_messages([row, row | wrong])
        assert store.count() == 0


@pytest.mark.parametrize("body", [bytearray(b"x"), memoryview(b"xx")[:1]], ids=lambda body: type(body).__name__)
@pytest.mark.parametrize("column", ["body", "raw_body"])
def test_a_dict_may_have_its_body_in_a_buffer(column, body, tmp_path):
    with open_store(tmp_path / "store") as store:
        store.put_messages([{"topic": "T", column: body, "sys_flag": 0}])
        assert [message.body for message in store["T"]] == [b"x"]


@pytest.mark.parametrize(
    "given", [Message("T", b"x"), {"topic": "T", "body": b"x"}], ids=lambda row: type(row).__name__
)
def test_one_message_in_place_of_a_list_is_refused(given, tmp_path):
    with (
        open_store(tmp_path / "store") as store,
        pytest.raises(TypeError, match="messages were expected, such as a list"),
    ):
        store.put_messages(given)


def test_a_wrong_dict_in_a_later_part_is_named_by_its_row_of_all(tmp_path):
    rows = ({"topic": "T", "body": b"x"} if number < 9000 else {"topik": "T"} for number in range(9001))
    with open_store(tmp_path / "store") as store, pytest.raises(TypeError, match="row 9000: "):
        store.put_messages(rows)
