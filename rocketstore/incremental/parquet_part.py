"""Write a part of an incremental export as a Parquet file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rocketstore.arrow import message_schema
from rocketstore.extras import import_extra
from rocketstore.log.scan import Scan


def write_parquet(path: Path, scan: Scan, columns: Iterable[str] | None) -> int:
    """Write the messages of a scan to a Parquet file. Return their number.

    Parameters: columns: of the scan. Raises: as an iteration of the scan; ModuleNotFoundError; OSError.
    """
    rows = 0
    with import_extra("pyarrow.parquet", "arrow").ParquetWriter(path, message_schema(columns)) as writer:
        for batch in scan:
            writer.write_batch(batch.to_arrow())
            rows += len(batch)
    return rows
