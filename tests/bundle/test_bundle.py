"""bundle: the archive has what a bug report needs, and no byte of a body and no credential."""

import io
import json
import random
import shutil
import tarfile
import zipfile

import pytest

import rocketstore
from rocketstore import Message, StoreConfig, bundle
from rocketstore.bundle import summary_files
from rocketstore.bundle.blanking import blank_bytes, blank_credentials, blank_text

CONFIG = StoreConfig(
    mapped_file_size_commit_log=65536,
    mapped_file_size_consume_queue=2000,
    max_hash_slot_num=50,
    max_index_num=200,
    allocate_file_ahead=False,
)
SECRETS = [b"Hunter2Zauberwort", b"sk_live_4242424242424242", "geheimes-Wörtchen".encode(), b"4111111111111111"]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A store whose bodies and values of properties have secrets, and whose configuration has credentials."""
    root = tmp_path_factory.mktemp("bundle") / "store"
    with rocketstore.open(root, "a", config=CONFIG) as store:
        for number in range(150):
            secret = SECRETS[number % 4]
            properties = {"token": secret.decode(), "UNIQ_KEY": f"{number:032}"}
            body = secret * (1 + number % 30) + b"\0" * (number % 50)
            text = secret.decode()
            store.put_message(Message("Orders", body, keys=[text], tags=text, properties=properties))
    (root / "config" / "users").mkdir()
    (root / "config" / "users" / "000004.sst").write_bytes(b"".join(SECRETS))
    (root / "config" / "plain_acl.yml").write_bytes(b"secretKey: " + SECRETS[0])
    (root / "config" / "consumerFilter.json").write_text(json.dumps({"password": SECRETS[0].decode(), "filters": {}}))
    (root / "config" / "subscriptionGroup.json").write_bytes(b"{" + SECRETS[1])
    (root / "broker.conf").write_text(
        f"accessKey={SECRETS[1].decode()}\nbrokerName={SECRETS[0].decode()}\nbrokerRole=ASYNC_MASTER\nlistenPort=10911\n"
        f"tieredStoreFilePath=s3://{SECRETS[0].decode()}:x@bucket/tier\n"
        "mappedFileSizeCommitLog=65536\nmappedFileSizeConsumeQueue=2000\nmaxHashSlotNum=50\nmaxIndexNum=200\n"
    )
    return root


@pytest.fixture
def root(sound, tmp_path):
    return shutil.copytree(sound, tmp_path / "store")


def contents_of(path):
    """The files of an archive by name."""
    if path.name.endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    with tarfile.open(path) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive.getmembers()}


def parts_of(secret):
    """All pieces of six bytes of a secret."""
    return {secret[at : at + 6] for at in range(len(secret) - 5)}


def assert_no_secret(files):
    pieces = {piece for secret in SECRETS for piece in parts_of(secret)}
    pieces |= {json.dumps(piece.decode("utf-8", "replace"))[1:-1].encode() for piece in pieces}
    everything = {**files, "names": "\n".join(files).encode()}
    found = {(name, piece) for name, data in everything.items() for piece in pieces if piece in data}
    assert found == set()


@pytest.mark.parametrize("name", ["b.tar.gz", "b.tgz", "b.zip"])
def test_the_archive_has_summary_findings_configuration_and_versions(root, tmp_path, name):
    report = bundle(root, tmp_path / name)
    files = contents_of(tmp_path / name)
    sizes = {name: len(data) for name, data in files.items()}
    assert [(file.name, file.size) for file in report.files] == sorted(sizes.items())
    assert {"versions.json", "info.json", "verify.json", "state.json", "files.json", "settings.json"} < files.keys()
    assert json.loads(files["info.json"])["messages"] == 150
    assert json.loads(files["versions.json"])["packages"]["rocketstore"] == rocketstore.__version__
    assert json.loads(files["config/topics.json"])["topicConfigTable"].keys() == {"Orders"}
    others = {row["path"]: row["size"] for row in json.loads(files["config/others.json"])}
    assert others.keys() >= {"config/users/000004.sst", "config/plain_acl.yml", "config/subscriptionGroup.json"}
    assert report.to_arrow().num_rows == len(files)
    assert report.size == (tmp_path / name).stat().st_size
    assert_no_secret(files)


def test_settings_have_no_credentials(root, tmp_path):
    config = StoreConfig.from_broker_conf(root / "broker.conf")
    bundle(root, tmp_path / "b.zip", config=config)
    files = contents_of(tmp_path / "b.zip")
    settings = json.loads(files["settings.json"])
    assert (settings["listenPort"], settings["brokerRole"], settings["maxIndexNum"]) == ("10911", "ASYNC_MASTER", 200)
    assert (settings["accessKey"], settings["brokerName"]) == ("x", "x")
    assert settings["tieredStoreFilePath"] == "s3://x@bucket/tier"
    assert_no_secret(files)


def test_bytes_around_damage_show_heads_and_holes_alone(root, tmp_path):
    with rocketstore.open(root) as store:
        message = store.get_message("Orders", 0, 20, 1).messages[0]
    with (root / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(message.phy_offset + 90)
        file.write(bytes(200))
    report = bundle(root, tmp_path / "b.zip")
    assert not report.ok
    files = contents_of(tmp_path / "b.zip")
    (name,) = (name for name in files if name.startswith("damage/"))
    data, begin = files[name], int(name.removesuffix(".bin").rpartition("-")[2])
    at = message.phy_offset - begin
    raw = (root / "commitlog" / f"{0:020}").read_bytes()[begin : begin + len(data)]
    assert data[at : at + 48] == raw[at : at + 8] + b"xxxx" + raw[at + 12 : at + 48]  # up to the born time
    assert data[at + 48 : at + 56] == b"x" * 8  # the host
    assert data[at + 90 : at + 290] == bytes(200)
    assert b"Orders" in data
    assert b"UNIQ_KEY\1" in data
    assert b"token" not in data
    assert all(was in (now, 0) or now == 0x78 for was, now in zip(raw, data, strict=True))
    assert_no_secret(files)


@pytest.mark.parametrize("round_number", range(12))
def test_no_damage_brings_a_secret_into_the_archive(root, tmp_path, round_number, seed):
    """Bytes are overwritten, moved, and put into files of other kinds."""
    rng = random.Random(f"{seed} {round_number}")
    log = root / "commitlog" / f"{0:020}"
    data = bytearray(log.read_bytes())
    for _ in range(rng.randint(1, 12)):
        at, size = rng.randrange(len(data) - 600), rng.choice([1, 4, 91, 500])
        other = rng.randrange(len(data) - size)
        data[at : at + size] = rng.choice([bytes(size), rng.randbytes(size), bytes(data[other : other + size])])
    if rng.random() < 0.5:
        shift = rng.randrange(1, 300)
        data = data[shift:] + bytes(shift)
    log.write_bytes(data)
    for path in rng.sample(sorted(path for path in root.rglob("*") if path.is_file() and path != log), 4):
        size = path.stat().st_size
        path.write_bytes(bytes(data[:size]) if size else b"")
    bundle(root, tmp_path / "b.zip", config=CONFIG)
    assert_no_secret(contents_of(tmp_path / "b.zip"))


def test_a_store_that_crashed_and_lacks_parts_has_a_bundle_too(root, tmp_path):
    shutil.rmtree(root / "consumequeue")
    (root / "abort").write_text("1")
    (root / "checkpoint").write_bytes(b"short")
    bundle(root, tmp_path / "b.zip", config=CONFIG)
    files = contents_of(tmp_path / "b.zip")
    assert json.loads(files["state.json"])["abort"] is True


def test_a_long_list_of_files_is_cut_and_has_the_number_of_all(root, tmp_path, monkeypatch):
    monkeypatch.setattr(summary_files, "MOST_FILES", 3)
    bundle(root, tmp_path / "b.zip")
    listed = json.loads(contents_of(tmp_path / "b.zip")["files.json"])
    assert len(listed["files"]) == 3
    assert listed["count"] == sum(not path.is_dir() for path in root.rglob("*"))


def test_another_ending_is_refused(root, tmp_path):
    with pytest.raises(ValueError, match=r"must end in one of \.tar\.gz"):
        bundle(root, tmp_path / "b.rar")


def test_words_and_values_that_are_not_known_are_blanked():
    assert blank_text("at 12: bodyCrc: Hunter2 of 'Orders'", {"Orders"}) == "at 12: bodyCrc: x of 'Orders'"
    tables = {"Users@auth": {"0": 7}, "a": {"userPassword": "s"}, "b": ["ftp://u:p@host"], "secret": {"deep": [1]}}
    assert blank_credentials(tables, {"Users", "auth"}) == {
        "Users@auth": {"0": 7},
        "a": {"userPassword": "x"},
        "b": ["ftp://x@host"],
        "secret": {"deep": ["x"]},
    }
    assert blank_bytes(b"ab" + bytes(64) + b"cd" + bytes(3), [(1, 2), (60, 70)]) == b"xb" + bytes(64) + b"cd\0\0x"


def test_the_archive_replaces_an_older_one(root, tmp_path):
    (tmp_path / "b.zip").write_bytes(b"old")
    bundle(root, tmp_path / "b.zip")
    assert zipfile.is_zipfile(io.BytesIO((tmp_path / "b.zip").read_bytes()))
