"""How objects show themselves: a repr in a terminal and HTML in a notebook, with the same facts and safe."""

from html.parser import HTMLParser

import pytest

import rocketstore
from rocketstore import Message, StoreConfig

T0 = 1_700_000_000_000
SCRIPT = "<script>alert(1)</script>"
TAGS = {"p", "table", "thead", "tbody", "tr", "th", "td"}


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
            message = Message(SCRIPT.replace("/", "-"), SCRIPT.encode() * 20, keys=[SCRIPT, f"k{i}"], tags=SCRIPT,
                              queue_id=i % 2)
            store.put_message(message, store_timestamp=T0 + 1000 * i)
    return root


TOPIC = SCRIPT.replace("/", "-")  # a slash would be no name of a directory


@pytest.fixture
def store(root):
    with rocketstore.open(root) as store:
        yield store


def query_keys(store):
    return store.query_messages(TOPIC, [SCRIPT, "k7"])


SHOWN = {
    "batch": (lambda store: store.scan().head(100), 100),
    "message": (lambda store: store.scan().head(1)[0], 1),
    "key": (lambda store: store.query_message(TOPIC, SCRIPT), 64),
    "keys": (query_keys, 65),
    "read": (lambda store: store.get_message(TOPIC, 0, 0), 32),
    "units": (lambda store: store.consume_queue(TOPIC, 0)[0:50], 50),
}


@pytest.mark.parametrize("kind", SHOWN)
def test_names_of_the_store_stay_text(kind, store):
    make, _ = SHOWN[kind]
    page = Page(make(store)._repr_html_())
    assert page.tags <= TAGS
    assert page.attributes <= {("style", "text-align: left"), ("style", "text-align: right")}  # no colours
    if kind != "units":
        assert any("<script>" in cell for row in page.rows for cell in row)


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
