"""How objects show themselves: a repr in a terminal and HTML in a notebook, with the same facts and safe."""

import json
import shutil
from html.parser import HTMLParser

import pytest

import rocketstore
from rocketstore import BatchConsumeQueue, Message, StoreConfig
from rocketstore.preview import GREEN, RED
from rocketstore.store.overview import topic_tables

T0 = 1_700_000_000_000
SCRIPT = "<script>alert(1)</script>"
TAGS = {"p", "strong", "table", "thead", "tbody", "tr", "th", "td"}


class Page(HTMLParser):
    """The tags, attributes and texts of HTML. ``rows`` has the texts of the cells of each row."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.rows, self.lines = set(), set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.update(attrs)
        if tag == "p":
            self.lines.append("")
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_data(self, data):
        if self.rows:
            self.rows[-1][-1] += data
        else:
            self.lines[-1] += data


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A store with 100 messages of one topic, whose name in a property, a tag, a key and a body is a script."""
    root = tmp_path_factory.mktemp("previews") / "store"
    with rocketstore.open(root, "a", config=StoreConfig.small()) as store:
        for i in range(100):
            message = Message(
                SCRIPT.replace("/", "-"), SCRIPT.encode() * 20, keys=[SCRIPT, f"k{i}"], tags=SCRIPT, queue_id=i % 2
            )
            store.put_message(message, store_timestamp=T0 + 1000 * i)
    offsets = {f"{TOPIC}@{SCRIPT}-{n}": {"0": 40} for n in range(15)}
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))
    return root


TOPIC = SCRIPT.replace("/", "-")  # a slash would be no name of a directory


@pytest.fixture
def store(root):
    with rocketstore.open(root) as store:
        yield store


def query_keys(store):
    return store.query_messages(TOPIC, [SCRIPT, "k7"])


def damage(store):
    """Return a copy of the store as a killed broker leaves it: the end of the last record is zeros."""
    copy = store.path.with_name("damaged")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(store.path, copy)
    (copy / "abort").touch()
    with (copy / "commitlog" / f"{0:020}").open("r+b") as log:
        last = store.consume_queue(TOPIC, 1)[49]
        log.seek(last.phy_offset + last.size - 300)
        log.write(bytes(300))
    return copy


def salvage(store):
    out = store.path.with_name(TOPIC)
    shutil.rmtree(out, ignore_errors=True)
    return rocketstore.salvage(damage(store), out)


def put(store):
    root = store.path.with_name("put")
    shutil.rmtree(root, ignore_errors=True)
    with rocketstore.open(root, "a", config=StoreConfig.small()) as new:
        return new.put_messages(list(store.scan().head(100)), store_timestamp="given")


SHOWN = {
    "store": (lambda store: store, 100),
    "topic": (lambda store: store[TOPIC], 100),
    "batch": (lambda store: store.scan().head(100), 100),
    "message": (lambda store: store.scan().head(1)[0], 1),
    "key": (lambda store: store.query_message(TOPIC, SCRIPT), 100),
    "keys": (query_keys, 101),
    "read": (lambda store: store.get_message(TOPIC, 0, 0), 32),
    "units": (lambda store: store.consume_queue(TOPIC, 0)[0:50], 50),
    "lag": (lambda store: store.consumer_lag(), 30),
    "verify": (lambda store: rocketstore.verify(damage(store)), 99),
    "plan": (lambda store: rocketstore.recover(damage(store), dry_run=True), 5),
    "recovery": (lambda store: rocketstore.recover(damage(store)), 5),
    "salvage": (salvage, 99),
    "put": (put, 100),
    "diff": (lambda store: rocketstore.diff(store.path, damage(store)), 100),
}


@pytest.mark.parametrize("kind", SHOWN)
def test_names_of_the_store_stay_text(kind, store):
    make, _ = SHOWN[kind]
    page = Page(make(store)._repr_html_())
    assert page.tags <= TAGS
    assert page.attributes - {("style", f"color: {RED}")} <= {
        ("style", "text-align: left"),
        ("style", "text-align: right"),
    }
    if kind not in ("units", "put"):
        assert any("<script>" in text for text in [*page.lines, *(cell for row in page.rows for cell in row)])


@pytest.mark.parametrize("kind", [kind for kind in SHOWN if kind != "message"])
def test_the_repr_and_the_html_have_the_same_facts(kind, store):
    make, count = SHOWN[kind]
    shown = make(store)
    page, lines = Page(shown._repr_html_()), repr(shown).splitlines()
    assert lines[0] == f"<{page.lines[0]}>"
    assert str(count) in lines[0]
    assert len(page.rows) == len(lines) - 1
    for row, line in zip(page.rows, lines[1:], strict=True):
        assert [part for cell in row for part in cell.split()] == line.split()


def test_a_table_has_the_first_rows_and_the_title_has_the_number_of_all(store):
    rows = Page(store.consumer_lag()._repr_html_()).rows
    assert len(rows) == 1 + 12 + 1
    assert set(rows[-1]) == {"…"}
    batch = Page(store.scan().head(100)._repr_html_()).rows
    assert [row[0][:19] for row in batch[1:]] == [
        *(f"2023-11-14 22:13:2{n}" for n in range(5)),
        "…",
        *(f"2023-11-14 22:14:5{n}" for n in range(5, 10)),
    ]


def test_times_and_wide_bodies_are_shown_in_a_form_that_people_read(store):
    header, first, *_ = Page(store.scan().head(100)._repr_html_()).rows
    shown = dict(zip(header, first, strict=True))
    assert shown["store_timestamp"] == "2023-11-14 22:13:20.000+00:00"
    assert shown["body"] == "b'" + (SCRIPT * 20)[:37] + "…"
    lag = Page(store.consumer_lag()._repr_html_()).rows
    assert dict(zip(*lag[:2], strict=True))["oldest_timestamp"] == "2023-11-14 22:14:40.000+00:00"


def test_numbers_are_aligned_to_the_right_and_all_else_to_the_left(store):
    cells = store.consume_queue(TOPIC, 0)[:1]._repr_html_()
    assert '<th style="text-align: right">phy_offset</th>' in cells
    assert '<td style="text-align: left">False</td>' in cells
    assert repr(store.consume_queue(TOPIC, 0)[:1]).splitlines()[1:] == [
        "queue_offset  phy_offset  size  tags_code  is_filler",
        "           0           0   681   82786533  False",
    ]


def test_units_of_a_batch_queue_show_counts_and_times(tmp_path):
    with BatchConsumeQueue.open(tmp_path, "a", mapped_file_size=4600) as queue:
        queue.put_unit(0, 300, 0, 0, batch_num=3, store_timestamp=T0)
        header, unit = Page(queue[:]._repr_html_()).rows
    shown = dict(zip(header, unit, strict=True))
    assert (shown["batch_num"], shown["store_timestamp"]) == ("3", "2023-11-14 22:13:20.000+00:00")


def test_the_bytes_of_a_damaged_queue_with_a_huge_gap_are_estimated(tmp_path):
    with BatchConsumeQueue.open(tmp_path, "a", mapped_file_size=4600) as queue:
        queue.put_unit(0, 300, 0, 0, batch_num=3, store_timestamp=T0)
        queue.put_unit(300, 300, 0, 2**62 + 1, batch_num=3, store_timestamp=T0)
        size, is_exact = topic_tables.measure_records(queue)
    assert size > 0
    assert not is_exact


def test_a_report_shows_the_end_of_a_long_path_and_the_facts_of_a_finding(store):
    page = Page(rocketstore.verify(damage(store))._repr_html_())
    assert page.lines[0].startswith("VerifyReport: not sound, 1 error, 6 warnings, 2 infos, log from 0 to ")
    finding = dict(zip(page.rows[0], page.rows[1], strict=True))
    assert (finding["severity"], finding["kind"], finding["mend"]) == ("error", "unit-beyond-log", "recover")
    assert finding["path"].endswith(f"/consumequeue/{TOPIC}/1/{0:020}")


def test_the_verdict_of_a_report_is_green_only_if_all_is_sound(store):
    verdict = '<p>VerifyReport: <strong style="color: {}">{}</strong>, '
    sound, bad = rocketstore.verify(store.path), rocketstore.verify(damage(store))
    assert sound._repr_html_().startswith(verdict.format(GREEN, "sound"))
    assert bad._repr_html_().startswith(verdict.format(RED, "not sound"))
    assert (
        rocketstore.verify(store.path, quick=True)
        ._repr_html_()
        .startswith("<p>VerifyReport: <strong>no error found</strong>, ")
    )


def test_a_plan_says_that_nothing_was_changed(store):
    plan = rocketstore.recover(damage(store), dry_run=True)
    assert "5 planned actions, nothing was changed" in repr(plan).splitlines()[0]
    assert [row[1] for row in Page(plan._repr_html_()).rows[1:]] == ["save", "zero", "zero", "cut", "dispatch"]


def test_a_store_shows_its_topics_with_bytes_and_times(tmp_path):
    with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as store:
        for n in range(25):
            messages = [Message(f"T{n:02}", b"x" * n, queue_id=i % 2) for i in range(4)]
            store.put_messages(messages, store_timestamp=T0 + 1000 * n)
    with rocketstore.open(tmp_path) as store:
        rows = Page(store._repr_html_()).rows
        assert rows[0] == ["topic", "queues", "messages", "bytes", "begin_time", "end_time"]
        size = sum(message.size for message in store["T03"])
        assert rows[4] == ["T03", "2", "4", str(size), "2023-11-14 22:13:23.000+00:00", "2023-11-14 22:13:23.000+00:00"]
        assert len(rows) == 1 + 12 + 1
        assert set(rows[-1]) == {"…"}
        assert "25 topics, 50 queues, 100 messages" in repr(store).splitlines()[0]
        topic = Page(store["T03"]._repr_html_()).rows
        assert [row[:3] for row in topic] == [
            ["queue_id", "messages", "bytes"],
            ["0", "2", str(size // 2)],
            ["1", "2", str(size // 2)],
        ]
    assert repr(store) == f"<MessageStore {str(tmp_path)!r}, closed>"


def test_the_bytes_of_a_long_queue_are_estimated_from_samples(tmp_path, monkeypatch):
    monkeypatch.setattr(topic_tables, "MAX_MEASURED", 80)
    monkeypatch.setattr(topic_tables, "SAMPLE", 10)
    with rocketstore.open(tmp_path, "a", config=StoreConfig.small()) as store:
        store.put_messages([Message("Long", b"x" * (n % 10), queue_id=0) for n in range(1000)])
        size = store.consume_queue("Long", 0).count_bytes(0, 1000)
        assert size == sum(message.size for message in store["Long"])
        (row,) = Page(store._repr_html_()).rows[1:]
        assert row[:3] == ["Long", "1", "1000"]
        assert row[3].startswith("about ")
        assert abs(int(row[3].split()[1]) - size) < 10


def test_a_topic_with_a_queue_that_cannot_be_read_is_shown_without_numbers(store):
    copy = store.path.with_name("unreadable")
    shutil.copytree(store.path, copy)
    path = copy / "consumequeue" / TOPIC / "0" / f"{7:020}"
    path.write_bytes(bytes(2000))  # this file does not fit the first one
    with rocketstore.open(copy) as damaged:
        assert Page(damaged._repr_html_()).rows[1:] == [[TOPIC, "2", "", "", "", ""]]
        assert str(path.parent) in repr(damaged).splitlines()[0]


def test_a_remote_store_shows_its_topics_without_bytes_and_times(store):
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec, from the extra 'remote'")
    path = rocketstore.RemotePath(fsspec.filesystem("file"), str(store.path))
    with rocketstore.open(path) as remote:
        assert Page(remote._repr_html_()).rows[1:] == [[TOPIC, "2", "100", "", "", ""]]
