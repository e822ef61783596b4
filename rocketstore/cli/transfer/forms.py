"""The formats of the files that ``export`` writes and ``import`` reads."""

from pathlib import Path

import click

from rocketstore.cli.text import CSV_FORMS
from rocketstore.cli.words_of_other_tools import FILES

SUFFIXES = {".parquet": "parquet", ".arrow": "arrow", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
SUFFIXES[".csv"] = "csv"
SUFFIX_OF = {"json": "jsonl", "csv-safe": "csv"}  # of formats whose files have another suffix
FORMATS = sorted({*SUFFIXES.values()})
TABLES = ("parquet", "arrow")
COMPRESSIONS = {  # default first
    "parquet": ("snappy", "zstd", "lz4", "gzip", "none"),
    "arrow": ("none", "zstd", "lz4"),
    "json": ("none", "gzip", "zstd"),
    "csv": ("none", "gzip", "zstd"),
}
COMPRESSED_SUFFIXES = {".gz": "gzip", ".zst": "zstd"}  # of text files, behind the suffix of the format
PARTITIONS = ("topic", "day")


def format_of(path: Path, form: str | None, name: str) -> str:
    """Return the format of a file: the option's, or the one of its suffix. Parameters: name: of the argument."""
    plain = path.with_suffix("") if path.suffix in COMPRESSED_SUFFIXES else path
    form = form or SUFFIXES.get(plain.suffix)
    if form is None:
        line = FILES.get(plain.suffix) if name == "TARGET" else None
        hint = "" if line is None else f": did you mean {line}?"
        raise click.UsageError(f"give --format, or a {name} that ends with one of {', '.join(SUFFIXES)}{hint}")
    return form


def compression_of(path: Path, form: str, compression: str | None) -> str | None:
    """Return the compression of a file: the option's, or that of its suffix; None for the default of the format.

    Raises: UsageError for a format that has no such compression, or another one than the suffix says.
    """
    by_name = COMPRESSED_SUFFIXES.get(path.suffix)
    chosen = compression or by_name
    possible = COMPRESSIONS["csv" if form in CSV_FORMS else form]
    if chosen not in (None, *possible):
        raise click.UsageError(f"{path.name}: {form} files have {', '.join(possible)}, and not {chosen}")
    if by_name is not None and chosen != by_name:
        raise click.UsageError(f"--compression {compression}: the name {path.name} says {by_name}")
    return chosen


def part_suffix(form: str, compression: str | None) -> str:
    """Return the suffix of a file whose name the user does not choose, without the first dot."""
    suffix = SUFFIX_OF.get(form, form)
    ending = {by: suffix for suffix, by in COMPRESSED_SUFFIXES.items()}.get(compression or "", "")
    return suffix if form in TABLES else f"{suffix}{ending}"
