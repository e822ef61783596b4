"""The pages about the format: tables of fields, golden bytes and their dumps, and the list of releases."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from support.pages import blocks_of

from rocketstore import CommitLog, ConsumeQueueExt, IndexFile, hash_keys
from rocketstore.compat import DIFFERENCES
from rocketstore.kernels import layout

TREE = Path(__file__).parent.parent.parent
PAGES = TREE / "docs" / "format"
GOLDEN = PAGES / "golden"
DUMP = re.compile(r"<!-- (hexdump|dump): ([^\n]+) -->\n\n```text\n(.*?)```", re.DOTALL)
FILES = {
    "commit-log-0.bin": "commitlog/00000000000000000000",
    "commit-log-256.bin": "commitlog/00000000000000000256",
    "consume-queue.bin": "consumequeue/T/0/00000000000000000000",
    "index-file.bin": "index/*",
    "checkpoint.bin": "checkpoint",
    "batch-queue.bin": "batchconsumequeue/B/0/00000000000000000000",
    "extension.bin": "consumequeue_ext/T/0/00000000000000000000",
}

pytestmark = pytest.mark.skipif(not PAGES.exists(), reason="tested away from the source tree")


def page_texts():
    return {path.name: path.read_text(encoding="utf-8") for path in PAGES.glob("*.md")}


def camel(name):
    """RocketMQ's name of a field: ``body_crc`` is bodyCrc."""
    first, *words = name.split("_")
    return first + "".join(map(str.title, words))


def type_name(dtype):
    return f"{dtype.itemsize} bytes" if dtype.kind == "V" else dtype.newbyteorder("=").name


def test_the_tables_of_fields_are_those_of_the_code():
    tables = {}
    for text in page_texts().values():
        for name, table in re.findall(r"<!-- layout: (\w+) -->\n\n((?:\|.*\n)+)", text):
            tables[name] = re.findall(r"^\| (\d+) \| ([\w ]+) \| `(\w+)` \|", table, re.MULTILINE)
    dtypes = {name: value for name, value in vars(layout).items() if isinstance(value, np.dtype) and value.names}
    assert tables.keys() == dtypes.keys() - {"PROPERTIES_LENGTH"}  # one int16, described with the record
    for name, rows in tables.items():
        fields = dtypes[name].fields
        assert rows == [(str(at), type_name(dtype), camel(field)) for field, (dtype, at) in fields.items()], name


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    """The store that the code of the page makes."""
    directory = tmp_path_factory.mktemp("golden")
    for language, block in blocks_of((PAGES / "index.md").read_text(encoding="utf-8")):
        assert language == "python"
        subprocess.run([sys.executable, "-c", block], cwd=directory, check=True, timeout=300)
    return directory / "golden"


def test_the_code_of_the_page_makes_the_golden_bytes(golden):
    assert {path.name for path in GOLDEN.iterdir()} == FILES.keys()
    for name, place in FILES.items():
        [path] = golden.glob(place)
        assert path.read_bytes() == (GOLDEN / name).read_bytes(), name
        assert f"(golden/{name})" in page_texts()["index.md"]


def test_the_first_golden_record_is_the_one_that_rocketmq_wrote():
    """Fields as RocketMQ 5.5.0 itself wrote them for this message, except for its two times."""
    data = (GOLDEN / "commit-log-0.bin").read_bytes()
    times = [bytes.fromhex("000001a1fca0fb14"), bytes.fromhex("000001a1fca0fb29")]
    written = data[:40] + times[0] + data[48:56] + times[1] + data[64:118]
    assert written.hex() == (
        "00000076daa320a7516fa58a000000000000000000000000000000000000000000000000"
        "00000000000001a1fca0fb147f000001000004d2000001a1fca0fb297f00000100002a9f"
        "00000000000000000000000000000005626f647930015400154b455953016b30206b6b02"
        "54414753015461674102"
    )


def text_table(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = (f"{row[0]:>{widths[0]}}  {row[1]:{widths[1]}}  {row[2]:{widths[2]}}  {row[3]}" for row in rows)
    return "".join(line.rstrip() + "\n" for line in lines)


def dump_of(data, parts):
    """The fields of structures, as a table. Parameters: parts: such as "0 UNIT, 20 UNIT"."""
    rows = [("byte", "field", "value", "hex")]
    for part in parts.split(", "):
        start, name = part.split()
        dtype = getattr(layout, name)
        for field, (kind, at) in dtype.fields.items():
            begin = int(start) + at
            value = layout.read_field(data, dtype, field, int(start))
            rows.append((str(begin), camel(field), str(value), data[begin : begin + kind.itemsize].hex(" ")))
    return text_table(rows)


def hexdump_of(golden, offset):
    """What ``rocketstore hexdump`` shows of a record."""
    command = [sys.executable, "-m", "rocketstore", "hexdump", str(golden), offset, "--format", "table"]
    run = subprocess.run(command, text=True, capture_output=True, check=True, timeout=300)
    return "".join(line.rstrip() + "\n" for line in run.stdout.splitlines())


def test_the_dumps_show_the_golden_bytes(golden):
    pytest.importorskip("click", reason="needs click, from the extra 'cli'")
    shown = set()
    for page, text in page_texts().items():
        assert len(DUMP.findall(text)) == len(re.findall("<!-- (?:hex)?dump:", text)), page
        for kind, what, block in DUMP.findall(text):
            if kind == "hexdump":
                assert block == hexdump_of(golden, what), f"{page}: {what}"
                shown.add(f"commit-log-{int(what) // 256 * 256}.bin")
            else:
                name, _, parts = what.partition(" ")
                assert block == dump_of((GOLDEN / name).read_bytes(), parts), f"{page}: {what}"
                shown.add(name)
    assert shown == FILES.keys()


def test_the_golden_files_can_be_read_alone(tmp_path):
    for name in FILES:
        path = tmp_path / FILES[name].replace("*", "20261118110640021")
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(GOLDEN / name, path)
    with CommitLog.open(tmp_path / "commitlog") as log:
        messages = [message for batch in log.scan() for message in batch]
    assert [message.body for message in messages] == [b"body0", b"body1", b"body2"]
    with IndexFile.open(tmp_path / "index" / "20261118110640021", hash_slot_num=4, index_num=12) as file:
        assert file.select_phy_offset("T#kk") == [118, 0]
    with ConsumeQueueExt.open(tmp_path / "consumequeue_ext" / "T" / "0") as extension:
        assert extension.read(-(1 << 63)).bitmap == bytes([0b101])


def test_the_hashes_of_the_page_are_those_of_the_code():
    hashes = re.findall(r"^\| `([^`]+)` \| (\d+) \|$", page_texts()["index-file.md"], re.MULTILINE)
    assert len(hashes) == 5
    assert hash_keys([text for text, _ in hashes]).tolist() == [int(number) for _, number in hashes]


def test_each_release_that_changes_bytes_is_on_the_page_of_releases():
    shown = re.findall(r"^\| (\d+)\.(\d+)\.(\d+) \|", page_texts()["releases.md"], re.MULTILINE)
    numbers = [tuple(map(int, release)) for release in shown]
    assert numbers == sorted(numbers)
    oldest = min(since for values in DIFFERENCES.values() for since in values)
    assert {since for values in DIFFERENCES.values() for since in values} - {oldest} <= set(numbers)


def test_the_figures_are_svg_with_a_title_and_a_dark_scheme():
    for text in page_texts().values():
        for link in re.findall(r"!\[[^\]]+\]\((.+\.svg)\)", text):
            picture = (PAGES / link).read_text(encoding="utf-8")
            root = ElementTree.fromstring(picture)
            assert root.find("{http://www.w3.org/2000/svg}title").text
            assert "@media (prefers-color-scheme: dark)" in picture
