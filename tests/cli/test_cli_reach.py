"""What users type first: guessed arguments, and commands that find nothing."""

import time

import pytest
from support.cli import assert_one_line, rows, run

import rocketstore
from rocketstore import Message, StoreConfig


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A store of 20 messages that are 26 hours old: order-N alternates between orders and payments."""
    path = tmp_path_factory.mktemp("reach") / "big"
    begin = int(time.time() * 1000) - 26 * 3_600_000 - 60_000
    with rocketstore.open(path, "a", config=StoreConfig.small()) as store:
        for n in range(20):
            topic, tag = ["orders", "payments"][n % 2], ["paid", "sent"][n % 2]
            message = Message(topic, b"%d" % n, keys=[f"order-{n}"], tags=tag, uniq_key=f"{n:032X}", queue_id=0)
            store.put_message(message, store_timestamp=begin + 1000 * n)
    return path


# ---- nothing is found --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["query", "--topic", "orders", "--key", "order-7"], "the key 'order-7' is in topic 'payments'"),
        (["query", "--key", "Order-7"], "topic 'payments' has the key 'order-7'"),
        (
            ["query", "--key", "nope"],
            "the index has no entry with the hash of the key 'nope'; the log has messages from",
        ),
        (["query", "--topic", "ordrs", "--key", "order-7"], "did you mean 'orders'?; the key 'order-7' is in"),
        (["query", "--since", "-1h"], "the newest message is 1d 2h old"),
        (["query", "--tag", "paid,sent"], "tags are separated by ||: 'paid || sent'"),
        (["cat", "--since", "-1h"], "the newest message is 1d 2h old"),
        (["cat", "--since", "-1h", "--tz", "Asia/Shanghai"], "+08:00"),
        (["cat", "--until", "2020-01-01"], "the oldest message is of "),
        (["cat", "--tag", "Paid"], "topic 'orders' has the tags 'paid'"),
        (["cat", "--topic", "orders", "--key", "order-7"], "the key 'order-7' is in topic 'payments'"),
        (["cat", "--begin-offset", "999999999"], "(20 messages of 2 topics in its queues, bytes 0 to "),
        (["count", "--by", "topic", "--key", "order-70"], "the log has messages from"),
        (["trace", "--key", "ORDER-7"], "topic 'payments' has the key 'order-7'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_no_message_was_found_has_a_reason(root, words, reason):
    assert_one_line(run(words[0], root, *words[1:]), reason)


def test_several_stores_without_an_answer_give_their_reasons(root, tmp_path):
    result = run("cat", root, root, "--since", "-1h")
    assert_one_line(result, "no message was found: big: the newest message is 1d 2h old")


# ---- ids ---------------------------------------------------------------------------------------------------


def test_an_id_is_that_of_a_client_or_an_offset_message_id(root):
    of_client = run("query", root, "--id", f"{7:032x}")
    (row,) = rows(of_client)
    assert (row["body"], of_client.stderr) == ("7", "1 found by its unique key, the client's message id\n")
    by_offset = run("query", root, "--id", row["msgId"])
    assert rows(by_offset) == [row]
    assert by_offset.stderr == "1 found by its offset message id\n"
    missing = run("query", root, "--id", "F" * 32)
    assert_one_line(missing, "the index has no message with this unique key, which a client shows as message id")
