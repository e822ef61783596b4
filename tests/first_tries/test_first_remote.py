"""A store in a bucket of S3 is opened by its URI."""

import pytest
from support import remote
from support.cli import run

import rocketstore

pytestmark = pytest.mark.slow  # a server of S3


def test_a_store_in_a_bucket_is_opened_by_its_uri(stores, monkeypatch):
    with remote.s3_file_system() as fs:
        remote.upload(fs, stores / "big", f"{remote.BUCKET}/big")
        for name, value in {
            "AWS_ENDPOINT_URL": fs.endpoint_url,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "eu-west-1",
        }.items():
            monkeypatch.setenv(name, value)
        uri = f"s3://{remote.BUCKET}/big"
        with rocketstore.open(uri) as store:
            assert store.scan(topic="orders").count() == 200
            assert store.query_message("order-7")[0].keys == ["order-7"]
        assert '"messages": 400' in run("info", uri).stdout
        assert '"keys": ["order-7"]' in run("query", uri, "order-7").stdout
        missing = run("info", f"s3://{remote.BUCKET}/bgi")
        assert (missing.exit_code, "bgi" in missing.stderr) == (1, True)
