"""Write the file of an export to another file system: first to a temporary directory of this machine."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from rocketstore.cli.transfer.export_options import ExportOptions
from rocketstore.cli.transfer.target import FileIsThere
from rocketstore.disk.remote.remote_path import RemotePath

# Protocols of object stores: a file appears there under its name when all its bytes are stored, and not before.
OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "hf"}


@contextmanager
def uploaded(target: RemotePath, options: ExportOptions) -> Iterator[Path]:
    """Yield the path of a local file to write. At the end of the ``with`` block, the file gets its remote name.

    Raises: UsageError for options that need a local target; ClickException if the file exists; OSError.
    """
    for name, value in {
        "--resume": options.resume,
        "--partition-by": options.partition_by,
        "--state": options.state is not None,
    }.items():
        if value:
            raise click.UsageError(f"{name}: TARGET must be a local path")
    if target.exists() and not options.force:
        raise FileIsThere(target)
    with tempfile.TemporaryDirectory(prefix="rocketstore-export-") as directory:
        local = Path(directory) / target.name
        yield local
        if local.exists():
            upload(local, target)


def upload(local: Path, target: RemotePath) -> None:
    """Copy a file to another file system. It gets its name when it is complete. Raises: OSError; ClickException."""
    fs: Any = target.fs
    protocols = {fs.protocol} if isinstance(fs.protocol, str) else {*fs.protocol}
    path = target if protocols & OBJECT_STORES else target.with_name(f"{target.name}.partial")
    with path.named():
        fs.put_file(str(local), path.path)
        size = fs.info(path.path)["size"]
    if size != local.stat().st_size:
        raise click.ClickException(f"{path}: has {size} bytes, and {local.stat().st_size} were written")
    if path != target:
        with target.named():
            fs.mv(path.path, target.path)
