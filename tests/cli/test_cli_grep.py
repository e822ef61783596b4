"""``--grep`` and ``--regex`` of cat, export and count."""

import pytest
from support.cli import rows, run
from support.puts import open_store

from rocketstore import Message

BODIES = [b"paid 10.50", b"PAID", b"\xff\xfe paid", "größe".encode(), b"", b"a.b", b"axb"]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Seven messages, each alone, and again in an inner batch."""
    root = tmp_path_factory.mktemp("grep") / "store"
    with open_store(root) as store:
        store.create_topic("Batches", 1, queue_type="BatchCQ")
        for n, body in enumerate(BODIES):
            store.put_message(Message("Orders", body, keys=[f"k{n}"], compress="zlib" if n % 2 else None))
        parts = [Message("Batches", body, keys=[f"b{n}"]) for n, body in enumerate(BODIES)]
        store.put_message(Message.batch("Batches", parts, queue_id=0))
    return root


def keys(*options, exit_code=0):
    return [row["keys"][0] for row in rows(run("cat", *options, "--columns", "keys"), exit_code=exit_code)]


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        (["--grep", "paid"], [0, 2]),
        (["--grep", "a.b"], [5]),
        (["--regex", "a.b"], [5, 6]),
        (["--regex", "(?i)^paid"], [0, 1]),
        (["--grep", "ö"], [3]),
        (["--regex", "gr.ße$"], [3]),
        (["--grep", "paid", "--grep", "10"], [0]),
        (["--grep", "paid", "--regex", r"\d"], [0]),
        (["--regex", "^$"], [4]),
    ],
)
def test_cat_shows_bodies_in_which_it_is_found(root, options, numbers):
    assert keys(root, *options) == [f"{letter}{n}" for letter in "kb" for n in numbers]


def test_limit_and_tail_count_what_is_found(root):
    assert keys(root, "--grep", "paid", "--limit", 3) == ["k0", "k2", "b0"]
    assert keys(root, "--grep", "paid", "--tail", 3) == ["k2", "b0", "b2"]


def test_it_is_one_more_condition(root):
    pytest.importorskip("duckdb", reason="needs DuckDB, from the extra 'duckdb'")
    assert keys(root, "--grep", "paid", "--where", "topic = 'Batches' AND 'b2' IN keys") == ["b2"]
    assert keys(root, "--grep", "paid", "--topic", "Orders", "--key", "k2") == ["k2"]


def test_count_and_export_take_it(root, tmp_path):
    found = rows(run("count", root, "--by", "topic", "--grep", "paid"))
    assert [(row["topic"], row["messages"]) for row in found] == [("Batches", 2), ("Orders", 2)]
    result = run("export", root, tmp_path / "paid.json", "--regex", "^PAID")
    assert "2 messages" in result.stderr
    assert len((tmp_path / "paid.json").read_text().splitlines()) == 2


def test_a_container_is_searched_as_it_is(root):
    assert len(rows(run("cat", root, "--containers", "--grep", "axb", "--columns", "topic"))) == 2


def test_wrong_texts_are_wrong_usage(root):
    for options, words in (
        (["--grep", ""], "an empty text"),
        (["--regex", "("], "missing )"),
        (["--regex", ""], "empty"),
    ):
        result = run("cat", root, *options)
        assert result.exit_code == 2
        assert words in result.stderr.splitlines()[-1]


def test_nothing_found_is_status_1(root):
    result = run("cat", root, "--grep", "nowhere")
    assert (result.exit_code, result.stdout) == (1, "")


def test_texts_have_the_charset_of_the_bodies(tmp_path):
    pytest.importorskip("duckdb", reason="needs DuckDB, from the extra 'duckdb'")
    with open_store(tmp_path / "store") as store:
        store.put_message(Message("T", "支付".encode("gbk"), keys=["gbk"]))
        store.put_message(Message("T", "支付".encode(), keys=["utf-8"]))
    for condition in (["--grep", "支"], ["--regex", "^支付$"], ["--where", "body_text = '支付'"]):
        assert keys(tmp_path / "store", "--charset", "gbk", *condition) == ["gbk"]
        assert keys(tmp_path / "store", *condition) == ["utf-8"]
