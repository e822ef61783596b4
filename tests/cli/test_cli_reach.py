"""What users type first: guessed arguments, and commands that find nothing."""

import json
import shutil
import time

import pytest
from support.cli import assert_one_line, rows, run

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.cli.formats import LeftOut, report_all


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
        (["get", "orders", "0", "0", "--tag", "paid,sent"], "tags are separated by ||: 'paid || sent'"),
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


# ---- words after STORE -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "bodies", "notes"),
    [
        ("query STORE order-7", ["7"], ["order-7 is read as --key order-7"]),
        ("query STORE order-7 order-8", ["8", "7"], ["--key order-7", "--key order-8"]),
        ("query STORE payments order-7", ["7"], ["--topic payments", "--key order-7"]),
        (f"query STORE {7:032X}", ["7"], ["--id ", "1 found by its unique key"]),
        ("query STORE orders --since 2d --limit 1", ["0"], ["orders is read as --topic orders"]),
        ("cat STORE orders --limit 2", ["0", "2"], ["orders is read as --topic orders"]),
        ("cat STORE orders payments --limit 2", ["0", "1"], ["--topic orders", "--topic payments"]),
        ("cat STORE ord* --limit 2", ["0", "2"], ["ord* is read as --topic ord*"]),
        ("cat STORE --topic ord* --limit 2", ["0", "2"], []),
        ("cat STORE --topic orders,payments --limit 2", ["0", "1"], []),
        ("cat STORE --topic *e* --limit 2", ["0", "1"], []),
        ("query STORE --topic pay* --key order-7", ["7"], []),
    ],
    ids=str,
)
def test_a_word_that_is_no_path_is_read_as_the_option_that_it_means(root, words, bodies, notes, monkeypatch):
    monkeypatch.chdir(root.parent)
    result = run(*(root if word == "STORE" else word for word in words.split()))
    assert [row["body"] for row in rows(result)] == bodies
    for note in notes:
        assert note in result.stderr


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("count STORE orders --by topic", 1),
        ("count STORE --topic o*,payments --by topic", 2),
        ("ls STORE orders", 1),
        ("du STORE orders --by topic", 1),
        ("trace STORE order-7", 2),
    ],
)
def test_other_commands_read_words_too(root, words, count, monkeypatch):
    monkeypatch.chdir(root.parent)
    found = rows(run(*(root if word == "STORE" else word for word in words.split())))
    assert len(found) == count


def test_a_group_after_the_store_is_read_as_a_group(root, tmp_path, monkeypatch):
    path = shutil.copytree(root, tmp_path / "big")
    (path / "config" / "consumerOffset.json").write_text('{"offsetTable": {"orders@billing": {"0": 4}}}')
    monkeypatch.chdir(tmp_path)
    assert {row["group"] for row in rows(run("lag", path, "billing"))} == {"billing"}
    wrong = run("lag", path, "biling")
    assert (wrong.exit_code, "did you mean --group billing?" in wrong.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("cat STORE ordrs", "'ordrs' is neither a file or directory nor a topic of ROOT: did you mean --topic orders?"),
        ("cat STORE zzz*", "'zzz*' is neither a file or directory nor a topic of ROOT"),
        ("cat STORE --topic x*", "--topic 'x*': no topic matches: rocketstore ls ROOT shows all"),
        ("query STORE payments", "'payments' is a topic: rocketstore cat ROOT --topic payments shows its messages"),
        ("query STORE nope --key order-7", "'nope' is neither a file or directory nor a topic of ROOT"),
        ("trace STORE order-7 order-8", "'order-8': give --key only once"),
        ("get STORE orders", "Missing arguments 'QUEUE', 'OFFSET'. rocketstore ls ROOT --topic orders shows queues"),
        ("get STORE", "Missing arguments 'TOPIC', 'QUEUE', 'OFFSET'. rocketstore ls ROOT shows queues"),
        ("get", "Missing arguments 'STORE', 'TOPIC', 'QUEUE', 'OFFSET'. rocketstore ls STORE shows queues"),
        ("export STORE", "Missing argument"),
        ("topics STORE", "No such command 'topics': did you mean 'ls'?"),
        ("queryMsgById STORE", "No such command 'queryMsgById': did you mean 'query --id'?"),
        ("help gat", "No such command 'gat': did you mean 'get'?"),
    ],
    ids=str,
)
def test_a_word_that_means_nothing_gives_the_line_to_type(root, words, reason, monkeypatch):
    monkeypatch.chdir(root.parent)
    result = run(*(root if word == "STORE" else word for word in words.split()))
    assert result.exit_code == 2
    assert reason.replace("ROOT", str(root)) in result.stderr


def test_an_existing_path_is_a_store_whatever_it_is_named(root, tmp_path, monkeypatch):
    monkeypatch.chdir(shutil.copytree(root, tmp_path / "orders").parent)
    assert {row["broker"] for row in rows(run("cat", root, "orders"))} == {"big", "orders"}


def test_a_missing_store_among_several_hides_no_other(root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = shutil.copytree(root, tmp_path / "other")
    result = run("cat", root, other, "misspelt", "--topic", "orders")
    assert len(rows(result, exit_code=1)) == 20
    assert "Error: misspelt: No such file or directory" in result.stderr


@pytest.mark.parametrize(("words", "shown"), [(["help"], "Commands:"), (["help", "get"], "rocketstore get [OPTIONS]")])
def test_help_is_a_command(words, shown):
    result = run(*words)
    assert result.exit_code == 0
    assert shown.replace("rocketstore get", "get") in result.stdout


def test_help_of_two_commands_is_an_error():
    result = run("help", "get", "cat")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "help of which command: 'get' or 'cat'? Give one" in result.stderr


# ---- many errors -------------------------------------------------------------------------------------------


def test_many_errors_of_one_kind_are_one_line_with_their_number(root, tmp_path):
    path = shutil.copytree(root, tmp_path / "big")
    offsets = {f"gone-{n}@billing": {str(queue): 7 for queue in range(8)} for n in range(525)}
    (path / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))
    topics = json.loads((path / "config" / "topics.json").read_text())
    known = topics["topicConfigTable"]["orders"] | {"readQueueNums": 8, "writeQueueNums": 8}
    topics["topicConfigTable"] |= {f"gone-{n}": known | {"topicName": f"gone-{n}"} for n in range(525)}
    (path / "config" / "topics.json").write_text(json.dumps(topics))
    result = run("lag", path)
    assert len(rows(result, exit_code=1)) == 4200
    assert_one_line(result, "there is no queue 0 of topic 'gone-0'", "(and 4,199 more errors of this kind)")
    several = run("lag", path, "--fail-if", "lag > 1000000")
    assert_one_line(several, "(and 4,199 more errors of this kind)")


def test_a_few_errors_have_a_line_each_and_equal_ones_have_their_number(capsys):
    problems = ["a/b: no queue 1", "a/b: no queue 2", "same", "same", *map(LeftOut, map(str, range(20)))]
    report_all(problems)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == ["Error: a/b: no queue 1", "Error: a/b: no queue 2", "Error: same (2 times)"]
    assert lines[3:] == [f"Error: {number}" for number in range(20)]


# ---- texts -------------------------------------------------------------------------------------------------


def test_columns_may_be_given_one_by_one(root):
    (row,) = rows(run("cat", root, "--limit", "1", "--columns", "topic", "--columns", "tags,keys"))
    assert row == {"topic": "orders", "tags": "paid", "keys": ["order-0"]}


def test_a_deletion_names_the_bytes_of_the_file(root, tmp_path):
    path = shutil.copytree(root, tmp_path / "big")
    shutil.rmtree(path / "commitlog")
    (path / "commitlog").mkdir()
    steps = rows(run("recover", path, "--policy", "broker", "--dry-run"))
    sizes = [step["size"] for step in steps if step["what"] == "delete" and "consumequeue" in step["path"]]
    assert sizes
    assert min(sizes) > 0


def test_a_damaged_body_is_named_by_a_dry_run_of_a_recovery(root, tmp_path):
    path = shutil.copytree(root, tmp_path / "big")
    with rocketstore.open(path) as store:
        message = store.query_message("order-7")[0]
        body_at = message.phy_offset + 88
    (path / "abort").touch()
    with min((path / "commitlog").iterdir()).open("r+b") as file:
        file.seek(body_at)
        assert file.read(1) == b"7"
        file.seek(body_at)
        file.write(b"x")
    result = run("recover", path, "--dry-run")
    assert_one_line(result, "bodyCrc", "is not the CRC of the body", "but a message is at")


def test_queues_that_are_lost_are_named_with_what_builds_them(root, tmp_path):
    path = shutil.copytree(root, tmp_path / "big")
    shutil.rmtree(path / "consumequeue")
    result = run("get", path, "orders", "0", "0")
    assert_one_line(result, "the log has messages, but there are no queues", "--consume-queue builds them")


def test_a_remote_path_where_a_local_one_is_needed_says_so():
    result = run("verify", "memory://store")
    assert "is remote: a local path is needed here (rocketstore copy makes" in result.stderr


def test_a_list_without_a_topic_is_not_all_topics(root):
    result = run("cat", root, "--topic", ",")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no queue of topic ','" in result.stderr
