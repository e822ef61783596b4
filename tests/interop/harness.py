"""RocketMQ's own store classes, driven from Python: a long-lived JVM for each release, built on demand."""

import base64
import functools
import itertools
import json
import os
import select
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# Maven Central lacks some modules of these releases: those of the release before are used. Of 5.5.1 it lacks client,
# filter, srvutil, auth and namesrv, of 4.9.8 broker and filter. The broker of 4.9.8 differs from that of 4.9.7 only in
# two requests of administrators: one for access control was removed, and some settings cannot be changed.
BESIDE = {"5.5.1": "5.5.0", "4.9.8": "4.9.7"}
ANSWER_SECONDS = 120
MAVEN_SECONDS = 300
# 4.x frees its mappings by reflection, 5.x by Netty.
OPENED = ("java.nio", "sun.nio.ch", "jdk.internal.ref")
JVM = [
    "-Xmx1g",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dio.netty.tryReflectionSetAccessible=true",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED),
]


class JavaError(Exception):
    """What the harness answered with `error`."""


def encode(text):
    """Write any str, lone surrogates too, as the hex digits of its UTF-16 units; None is "-"."""
    return "-" if text is None else text.encode("utf-16-be", "surrogatepass").hex()


def is_built(classpath):
    """Tell whether the classes are newer than their sources and every jar is still there."""
    if not classpath.exists():
        return False
    sources = [HERE / "pom.xml", *(HERE / "src").rglob("*.*")]
    return max(source.stat().st_mtime for source in sources) < classpath.stat().st_mtime and all(
        Path(jar).exists() for jar in classpath.read_text().split(os.pathsep)
    )


def name_of(release, profile):
    return f"{release}-{profile}" if profile else release


def classpath(release, profile=""):
    """Return the class path of a build."""
    target = HERE / "target" / name_of(release, profile)
    return os.pathsep.join([str(target / "classes"), (target / "classpath.txt").read_text().strip()])


@functools.cache
def build(release, profile=""):
    """Compile the harness against a RocketMQ release; return why that cannot be done here, or None.

    profile: of pom.xml; it has a build of its own.
    """
    for tool in ("java", "mvn"):
        if not shutil.which(tool):
            return f"needs {tool} on the PATH (Java 17 and Maven)"
    if is_built(HERE / "target" / name_of(release, profile) / "classpath.txt"):
        return None
    maven = [
        "mvn",
        "-q",
        "-B",
        "-Dstyle.color=never",
        f"-Drocketmq.version={release}",
        f"-Dbeside.version={BESIDE.get(release, release)}",
        "process-classes",
    ]
    maven += [f"-P{profile}"] if profile else []
    for offline in (["-o"], []):
        try:
            result = subprocess.run(
                maven + offline,
                cwd=HERE,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=MAVEN_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return f"Maven did not fetch RocketMQ {release} within {MAVEN_SECONDS} s"
        if result.returncode == 0:
            return None
    # Offline, a jar in the repository without its parent pom lacks its dependencies: only the second answer counts.
    if "COMPILATION ERROR" in result.stdout:
        raise AssertionError(f"the harness does not compile against RocketMQ {release}:\n{result.stdout}")
    errors = [line for line in result.stdout.splitlines() if "ERROR" in line] or [f"exit {result.returncode}"]
    return f"Maven cannot build against RocketMQ {release}: {errors[0][:300]}"


def end_process(root):
    """Say in ``abort`` that the process of a crashed store is gone: the JVM lives on, and has other stores open."""
    abort = root / "abort"
    if abort.exists() and abort.stat().st_size:
        abort.write_text("0")


class Java:
    """A JVM with the classes of one release."""

    main = "Harness"
    profile = ""

    def __init__(self, release, scratch):
        reason = build(release, self.profile)
        if reason:
            pytest.skip(reason)
        self.release = release
        self.scratch = scratch
        self.numbers = itertools.count()
        with (scratch / "stderr").open("wb") as stderr:
            self.process = subprocess.Popen(
                [
                    "java",
                    *JVM,
                    f"-Duser.home={scratch}",
                    f"-Djava.io.tmpdir={scratch}",
                    "-cp",
                    classpath(release, self.profile),
                    f"org.rocketstore.interop.{self.main}",
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                encoding="utf-8",
            )

    def call(self, *command):
        """Send one command, return the answer behind its "ok"."""
        self.process.stdin.write("\t".join(map(str, command)) + "\n")
        self.process.stdin.flush()
        # Nothing but answers comes from the JVM, so the stream's own buffer is empty here.
        ready, _, _ = select.select([self.process.stdout], [], [], ANSWER_SECONDS)
        answer = self.process.stdout.readline() if ready else "nothing in time"
        status, _, rest = answer.rstrip("\n").partition(" ")
        if status == "ok":
            return rest
        if status == "error":
            raise JavaError(f"RocketMQ {self.release}: {command[0]}: {rest}")
        raise AssertionError(
            f"the JVM of {self.release} answered {answer!r} to {command}: "
            f"{(self.scratch / 'stderr').read_text()[-2000:]}"
        )

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def put(self, directory, geometry, rows, first_name):
        """Fill IndexFiles from rows (index_key, phy_offset, store_timestamp); return how many were taken."""
        lines = [(encode(key), *numbers) for key, *numbers in rows]
        return int(self.call("put", directory, *geometry, self.cells(lines), first_name))

    def select(self, file, geometry, queries):
        """Return the list of offsets of each query (index_key, max_num, begin, end)."""
        lines = [(encode(key), *numbers) for key, *numbers in queries]
        answers = self.answers("select", file, *geometry, self.cells(lines))
        return [offsets_of(offsets) for (offsets,) in answers]

    def build(self, root, geometry, requests):
        """Dispatch requests to the IndexService of root/index; return the checkpoint's indexMsgTimestamp."""
        lines = [(*map(encode, request[:4]), *request[4:]) for request in requests]
        return int(self.call("build", root, *geometry, self.cells(lines)))

    def query(self, root, geometry, queries):
        """Return (offsets, last timestamp, last offset) of each (topic, key, max_num, begin, end, type)."""
        lines = [
            (encode(topic), encode(key), *numbers, index_type or "-") for topic, key, *numbers, index_type in queries
        ]
        answers = self.answers("query", root, *geometry, self.cells(lines))
        return [(offsets_of(offsets), int(timestamp), int(offset)) for offsets, timestamp, offset in answers]

    def load(self, root, geometry, index_msg_timestamp):
        """Load root/index as after a crash; return the names of the files that are left."""
        return [name for name in self.call("load", root, *geometry, index_msg_timestamp).split(",") if name]

    def write_store(self, root, options, messages):
        """Put messages (see stores.py) into a new store; return the answers, as dicts."""
        answers = self.json_answers("write", root, json.dumps(options), rows=messages)
        for left in (root, options.get("crashCopy", root)):
            end_process(Path(left))
        return answers

    def read_store(self, root, options, requests, *, load=True):
        """Ask RocketMQ about a copy of a store; return the answers to requests, dicts with an "op", one by one.

        load=False: without recovery, commit log and queues as they are. See StoreReader.java.
        """
        copy = self.scratch / f"{next(self.numbers)}-store"
        shutil.copytree(root, copy)
        # With duplicationEnable recovery takes records without DUP_INFO for bad.
        config = {**options["config"], "duplicationEnable": False}
        return self.json_answers("read", copy, json.dumps({**options, "config": config, "load": load}), rows=requests)

    def recover(self, root, options, *, start=True):
        """Do to a store itself what a broker's next start and clean stop do; return what it said after the load.

        start=False: load it and leave it like that. See StoreRecovery.java.
        """
        config = {"haListenPort": 0, **options["config"], "duplicationEnable": False}
        answer = json.loads(self.call("recover", root, json.dumps({**options, "config": config, "start": start})))
        end_process(Path(root))
        return answer

    def start(self, root, options):
        """Start a store that runs until `stop`; return what it said after the load. See StoreRuns.java."""
        return json.loads(self.call("run-start", root, json.dumps(options)))

    def put_messages(self, root, messages):
        """Put messages into a store that runs; return the answers, as dicts."""
        return self.json_answers("run-put", root, rows=messages)

    def ask(self, root, requests):
        """Return the answers of a store that runs, as ``read_store`` does."""
        return self.json_answers("run-ask", root, rows=requests)

    def follow(self, source, target, index, file_size):
        """Let a new member of DLedger begin its log with an entry of another one; return where it begins."""
        return int(self.call("follow", source, target, index, file_size))

    def truncate(self, root, offset):
        """Cut the log of a store that runs, as a replica does."""
        return self.call("run-truncate", root, offset) == "true"

    def stop(self, *roots):
        """Shut stores down, all at the same time; return where their logs ended."""
        return [int(end) for end in self.call("run-stop", *roots).split(",")]

    def parse(self, records, *, check_crc=True, check_dup=False, read_body=True, force_verify_prop_crc=False):
        """Return what CommitLog and MessageDecoder make of bytes, each beginning with a record."""
        flags = {
            "checkCrc": check_crc,
            "checkDup": check_dup,
            "readBody": read_body,
            "forceVerifyPropCrc": force_verify_prop_crc,
        }
        return self.json_answers("parse", rows=[{"data": base64_of(record), **flags} for record in records])

    def texts(self, datas):
        """Return bytes as Java decodes UTF-8, and as properties: dicts of text and properties."""
        return self.json_answers("text", rows=[{"data": base64_of(data)} for data in datas])

    def broker_files(self, datas):
        """Return the fields of a MessageStoreConfig, as text, after reading each file; None if reading one fails."""
        answers = self.json_answers("conf", rows=[{"data": base64_of(data)} for data in datas])
        return [answer.get("fields") for answer in answers]

    def json_answers(self, *command, rows):
        given = self.scratch / f"{next(self.numbers)}.jsonl"
        given.write_text("".join(json.dumps(row) + "\n" for row in rows))
        out = self.scratch / f"{next(self.numbers)}.out"
        self.call(*command, given, out)
        return [json.loads(line) for line in out.read_text().splitlines()]

    def cells(self, lines):
        path = self.scratch / f"{next(self.numbers)}.tsv"
        path.write_text("".join("\t".join(map(str, line)) + "\n" for line in lines))
        return path

    def answers(self, *command):
        out = self.scratch / f"{next(self.numbers)}.out"
        self.call(*command, out)
        return [line.split("\t") for line in out.read_text().splitlines()]


def base64_of(data):
    return base64.b64encode(data).decode()


def offsets_of(cell):
    return [int(offset) for offset in cell.split(",") if offset]
