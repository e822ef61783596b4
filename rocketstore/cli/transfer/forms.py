"""The formats of the files that ``export`` writes and ``import`` reads."""

from pathlib import Path

import click

SUFFIXES = {".parquet": "parquet", ".arrow": "arrow", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
SUFFIXES[".csv"] = "csv"
SUFFIX_OF = {"json": "jsonl", "csv-safe": "csv"}  # of formats whose files have another suffix
FORMATS = sorted({*SUFFIXES.values()})
TABLES = ("parquet", "arrow")
COMPRESSIONS = {"parquet": ("snappy", "zstd", "lz4", "gzip", "none"), "arrow": ("none", "zstd", "lz4")}  # default first
PARTITIONS = ("topic", "day")


def format_of(path: Path, form: str | None, name: str) -> str:
    """Return the format of a file: the option's, or the one of its suffix. Parameters: name: of the argument."""
    form = form or SUFFIXES.get(path.suffix)
    if form is None:
        raise click.UsageError(f"give --format, or a {name} that ends with one of {', '.join(SUFFIXES)}")
    return form
