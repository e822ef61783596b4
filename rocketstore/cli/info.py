"""``rocketstore info``: what is in index files."""

from pathlib import Path

import click
from rich.table import Table

from rocketstore.cli.formats import Row, error_text, format_option, table_of, write_rows
from rocketstore.cli.index_files import index_paths, open_index_file
from rocketstore.cli.options import geometry_options, utc_text
from rocketstore.errors import StoreError
from rocketstore.files.index_file import IndexFile, file_size, geometry_of

__all__ = ["info"]


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@geometry_options
@format_option
def info(path: Path, hash_slot_num: int | None, index_num: int | None, output_format: str | None) -> None:
    """Show what is in the index files of PATH, an index directory or one file.

    Times are UTC. Slots used are counted as RocketMQ counts them in the header.
    """
    paths = index_paths(path)
    geometry = hash_slot_num, index_num
    if hash_slot_num is None:
        geometry = common_geometry(paths)
    rows, errors = [], []
    for file_path in paths:
        try:
            with open_index_file(file_path, *geometry) as file:
                rows.append(row_of(file))
        except (OSError, StoreError, click.ClickException) as error:
            errors.append(error_text(error))
    if rows:
        write_rows(rows, output_format, lambda: make_table(rows))
    for message in errors:
        click.echo(f"Error: {message}", err=True)
    if errors:
        raise click.exceptions.Exit(1)


def common_geometry(paths: list[Path]) -> tuple[int, int] | tuple[None, None]:
    """The geometry of the first file that shows it: an empty one does not, and a damaged one need not."""
    for path in paths:
        try:
            return geometry_of([path], for_writing=False)
        except (OSError, StoreError, ValueError):
            continue
    return None, None


def row_of(file: IndexFile) -> Row:
    header = file.header
    return {
        "file": file.path.name,
        "items": len(file),
        "capacity": file.index_num - 1,
        "slotsUsed": header.hash_slot_count,
        "slots": file.hash_slot_num,
        "beginTime": utc_text(header.begin_timestamp),
        "endTime": utc_text(header.end_timestamp),
        "beginPhyOffset": header.begin_phy_offset,
        "endPhyOffset": header.end_phy_offset,
        "bytes": file_size(file.hash_slot_num, file.index_num),
    }


def make_table(rows: list[Row]) -> Table:
    table = table_of(
        ["file"],
        ["items", "of", "slots used", "of", "from (UTC)", "to (UTC)", "begin offset", "end offset", "bytes"],
    )
    for row in rows:
        name, *values = row.values()
        table.add_row(str(name), *map(cell, values))
    if len(rows) > 1:
        table.add_section()
        total = {name: sum(int(row[name] or 0) for row in rows) for name in ("items", "capacity", "bytes")}
        table.add_row(
            f"{len(rows)} files",
            cell(total["items"]),
            cell(total["capacity"]),
            *[""] * 6,
            cell(total["bytes"]),
        )
    return table


def cell(value: str | int | None) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return "-" if value is None else value.replace("T", " ").rstrip("Z")
