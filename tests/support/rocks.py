"""Make a RocksDB for tests."""

import pytest

from rocketstore.disk.rocksdb.rocks_database import KeyRange, RocksDatabase

rocksdict = pytest.importorskip("rocksdict", reason="needs rocksdict, from the extra 'rocksdb'")


def make_rocksdb(path, families, options=None):
    """Make a RocksDB. Parameters: families: the rows, as a dict of bytes, by the name of the column family."""
    path.parent.mkdir(parents=True, exist_ok=True)
    options = options or rocksdict.Options(raw_mode=True)
    database = rocksdict.Rdict(str(path), options)
    for name, rows in families.items():
        family = database if name == "default" else database.create_column_family(name, options)
        for key, value in rows.items():
            family[key] = value
        family.flush()
    database.close()
    (path / "rocksdict-config.json").unlink()
    return path


def rows_of(path):
    """Return the rows of a RocksDB, as a dict of bytes, by the name of the column family."""
    with RocksDatabase(path) as database:
        return {
            name: {key: value for rows in database.read(name, KeyRange()) for key, value in rows}
            for name in database.families
        }


def replace_rocksdb(path, families):
    """Put a new RocksDB in the place of one; directories beside it stay."""
    for file in path.iterdir():
        if file.is_file():
            file.unlink()
    made = make_rocksdb(path.with_name(f"{path.name}-new"), families)
    for file in made.iterdir():
        file.rename(path / file.name)
    made.rmdir()
    return path
