"""Make a RocksDB for tests."""

import pytest

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
