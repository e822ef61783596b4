"""``rocketstore export``: which columns, how compressed, and how large the row groups are."""

import csv
import itertools
import json

import pytest
from support.cli import assert_one_line, golden, run

import rocketstore

pa = pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow, from the extra 'arrow'")

RICH = "rich-5.5.0"
CHOSEN = ["--columns", "body,store_timestamp,topic"]


def export(target, *options, store=RICH):
    result = run("export", golden(store) if isinstance(store, str) else store, target, *options)
    assert result.exit_code == 0, result.stderr
    return target


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_chosen_columns_are_those_of_the_table_in_their_order(form, tmp_path):
    path = export(tmp_path / f"out.{form}", *CHOSEN)
    table = pq.read_table(path) if form == "parquet" else pa.ipc.open_file(path).read_all()
    with rocketstore.open(golden(RICH)) as store:
        expected = store.scan(columns=["body", "store_timestamp", "topic"]).to_arrow()
    assert table.column_names == ["body", "storeTimestamp", "topic"]
    assert table.equals(expected.cast(table.schema))


def test_chosen_columns_of_text_files(tmp_path):
    whole = [json.loads(line) for line in export(tmp_path / "whole.json").read_text("utf-8").splitlines()]
    names = ["body", "bodyBase64", "storeTimestamp", "topic"]
    found = [json.loads(line) for line in export(tmp_path / "out.ndjson", *CHOSEN).read_text("utf-8").splitlines()]
    assert found == [{name: row[name] for name in names} for row in whole]
    with export(tmp_path / "out.csv", *CHOSEN).open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        assert len(list(reader)) == len(whole)
        assert reader.fieldnames == names


@pytest.mark.parametrize("pieces", ["one file of the log", "many"])
@pytest.mark.parametrize("name", ["zstd", "gzip", "none", "snappy"])
def test_parquet_is_compressed_as_asked(name, pieces, tmp_path):
    store = "batch-5.5.0" if pieces != "many" else RICH
    data = pq.ParquetFile(export(tmp_path / "out.parquet", "--compression", name, store=store)).metadata
    expected = "UNCOMPRESSED" if name == "none" else name.upper()
    assert {data.row_group(0).column(at).compression for at in range(data.num_columns)} == {expected}


def test_arrow_is_compressed_as_asked(tmp_path):
    plain = export(tmp_path / "plain.arrow")
    small = export(tmp_path / "small.arrow", "--compression", "zstd")
    assert small.stat().st_size < plain.stat().st_size * 0.9
    assert pa.ipc.open_file(small).read_all().equals(pa.ipc.open_file(plain).read_all())


@pytest.mark.parametrize(("name", "options", "words"), [
    ("out.csv", ["--compression", "snappy"], "csv files have none, gzip, zstd, and not snappy"),
    ("out.arrow", ["--compression", "gzip"], "arrow files have none, zstd, lz4, and not gzip"),
    ("out.parquet.zst", ["--compression", "snappy"], "the name out.parquet.zst says zstd"),
    ("out.json", [*CHOSEN, "--raw-body"], "--columns and --raw-body"),
    ("out.json", ["--columns", "boddy"], "did you mean 'body'?"),
])  # fmt: skip
def test_options_that_do_not_fit_are_misuse(name, options, words, tmp_path):
    result = run("export", golden(RICH), tmp_path / name, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in " ".join(result.stderr.split())
    assert list(tmp_path.iterdir()) == []


def test_an_export_with_another_compression_is_not_resumed(tmp_path):
    (tmp_path / "out.parquet.partial").mkdir()
    asked = {"asked": {}, "replaces": False, "begin": 0, "end": 1, "queues": [], "parts": []}
    (tmp_path / "out.parquet.partial" / "export.json").write_text(json.dumps(asked))
    result = run("export", golden(RICH), tmp_path / "out.parquet", "--resume", "--compression", "zstd")
    assert result.exit_code == 1
    assert "was started with other options" in result.stderr


def test_row_groups_are_large_also_over_files_of_the_log(tmp_path, monkeypatch):
    from rocketstore.cli.transfer import table_file

    assert table_file.GROUP_ROWS >= 100_000
    assert pq.ParquetFile(export(tmp_path / "one.parquet")).metadata.num_row_groups == 1
    monkeypatch.setattr(table_file, "GROUP_ROWS", 100)
    data = pq.ParquetFile(export(tmp_path / "out.parquet")).metadata
    sizes = [data.row_group(n).num_rows for n in range(data.num_row_groups)]
    assert sum(sizes) == 288
    assert min(sizes[:-1]) >= 100
    monkeypatch.setattr(table_file, "GROUP_BYTES", 1)
    assert pq.ParquetFile(export(tmp_path / "small.parquet")).metadata.num_row_groups > len(sizes)


# ---- partitions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize("names", ["topic,day", "day", "topic"])
def test_an_export_by_topic_and_day_is_a_dataset_of_the_same_rows(names, form, tmp_path):
    import pyarrow.dataset

    whole = pq.read_table(export(tmp_path / "whole.parquet", "--columns", "topic,phyOffset,storeTimestamp"))
    target = export(tmp_path / "out", "--partition-by", names, "--format", form)
    levels = names.split(",")
    for path in target.rglob(f"*.{form}"):
        assert [part.partition("=")[0] for part in path.relative_to(target).parts[:-1]] == levels
    found = pyarrow.dataset.dataset(target, format="ipc" if form == "arrow" else form, partitioning="hive").to_table()
    assert sorted(found["phyOffset"].to_pylist()) == sorted(whole["phyOffset"].to_pylist())
    if "topic" in levels:
        expected = dict(zip(whole["phyOffset"].to_pylist(), whole["topic"].to_pylist(), strict=True))
        assert dict(zip(found["phyOffset"].to_pylist(), found["topic"].to_pylist(), strict=True)) == expected
    if "day" in levels:
        days = {str(time.date()) for time in whole["storeTimestamp"].to_pylist()}
        assert {str(day) for day in found["day"].to_pylist()} == days
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "whole.parquet"]


def test_a_directory_of_partitions_without_a_message_is_empty(tmp_path):
    result = run("export", golden(RICH), tmp_path / "out", "--partition-by", "topic", "--key", "no such key")
    assert_one_line(result, "no message was found")
    assert [*(tmp_path / "out").iterdir()] == []


def test_a_directory_of_partitions_replaces_nothing(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    result = run("export", golden(RICH), tmp_path / "out", "--partition-by", "topic")
    assert (result.exit_code, "exists: give another name" in result.stderr) == (1, True)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]
    for options in (
        ["--partition-by", "hour"],
        ["--partition-by", "topic", "--resume"],
        ["--partition-by", "topic", "--format", "csv"],
    ):
        assert run("export", golden(RICH), tmp_path / "new", *options).exit_code == 2
    assert not (tmp_path / "new").exists()


# ---- parts -------------------------------------------------------------------------------------------------


def ranges_of(column):
    """The bytes of a column in a row group of a Parquet file."""
    begin = column.data_page_offset
    if column.has_dictionary_page:
        begin = min(begin, column.dictionary_page_offset)
    return begin, begin + column.total_compressed_size


def test_parts_of_a_parquet_file_are_one_file(tmp_path, monkeypatch):
    """Readers find the columns of all row groups; they follow one another, and do not overlap."""
    from rocketstore.cli.transfer import table_file

    monkeypatch.setattr(table_file, "GROUP_ROWS", 10**9)
    whole = pq.read_table(export(tmp_path / "whole.parquet"))
    monkeypatch.setattr(table_file, "GROUP_ROWS", 20)
    path = export(tmp_path / "out.parquet")
    assert path.read_bytes().count(b"PAR1") > 4
    assert pq.read_table(path).equals(whole)
    data = pq.ParquetFile(path).metadata
    groups = [data.row_group(n) for n in range(data.num_row_groups)]
    places = [ranges_of(group.column(at)) for group in groups for at in range(data.num_columns)]
    assert len(places) > 2 * data.num_columns
    assert places == sorted(places)
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(places))
    assert data.num_rows == whole.num_rows
    assert data.schema.to_arrow_schema().equals(whole.schema)


@pytest.mark.parametrize("options", [
    {"write_page_index": True}, {"use_dictionary": False}, {"compression": "zstd", "data_page_version": "2.0"},
    {"store_schema": False}, {"row_group_size": 3},
])  # fmt: skip
def test_a_footer_is_moved_as_if_the_file_began_later(options, tmp_path):
    from rocketstore.cli.transfer.parquet_footer import MAGIC, footer_of, move_footer

    rows = pa.table(
        {f"c{n}": pa.array([n, None, 2**40], pa.int64()) for n in range(40)}
        | {"b": [True, None, False], "l": [["a"], [], None], "s": [{"x": 1.5}, None, {"x": 2.5}]}
    )
    pq.write_table(rows, tmp_path / "a.parquet", **options)
    data = (tmp_path / "a.parquet").read_bytes()
    assert move_footer(footer_of(data), 0) == footer_of(data)
    for by in (1, 123, 16_384, 2**40):
        footer = move_footer(footer_of(data), by)
        assert move_footer(footer, -by) == footer_of(data)
    with (tmp_path / "b.parquet").open("wb") as file:
        footer = move_footer(footer_of(data), 1000)
        file.write(bytes(1000) + data + footer + len(footer).to_bytes(4, "little") + MAGIC)
    assert pq.read_table(tmp_path / "b.parquet").equals(rows)
    pq.read_metadata(tmp_path / "b.parquet").row_group(0).column(0)


def test_a_footer_of_an_unknown_type_is_refused():
    from rocketstore.cli.transfer.parquet_footer import move_footer

    with pytest.raises(ValueError, match="type 13 is unknown"):
        move_footer(b"\x1d\x00\x00", 1)
