"""A real name server, broker and client on 127.0.0.1, over a store in a temporary directory."""

import json
import random
import signal
import socket
import subprocess
import time

from interop import harness, stores

RELEASE = "5.5.1"
QUEUES = {"Orders": 3, "Audit": 1, "Inner": 2}
INNER = "Inner"  # its queues are of type BatchCQ
BOOT_SECONDS = STOP_SECONDS = 60
READY = "boot success"
# A small heap, and no more compiling than it takes: a broker lives for seconds here.
JVM = [
    "-Xms64m",
    "-Xmx512m",
    "-XX:MaxDirectMemorySize=256m",
    *harness.JVM[1:],
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
]
CONFIG = {
    **stores.SMALL,
    "brokerClusterName": "interop",
    "brokerName": "interop",
    "brokerId": 0,
    "brokerIP1": "127.0.0.1",
    "brokerIP2": "127.0.0.1",
    "autoCreateTopicEnable": False,
    "timerWheelEnable": False,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 4000,
    "mappedFileSizeConsumeQueue": 20 * 100,
    "mapperFileSizeBatchConsumeQueue": 46 * 100,
}

# As brokers are by default: with timers and compaction, but without a name server.
BOOT = {name: value for name, value in CONFIG.items() if name not in ("timerWheelEnable", "enableCompaction")}
BOOT["namesrvAddr"] = ""


class Client(harness.Java):
    """RocketMQ's client, and the name server, in one JVM. See Client.java."""

    main = "Client"
    profile = "broker"

    def __init__(self, release, scratch):
        super().__init__(release, scratch)
        self.namesrv_port = int(self.call("start"))
        self.broker_port = free_ports()  # of one broker after the other

    def send(self, messages):
        """Send messages (topic, queueId, body, properties) until one fails; return what each was answered."""
        return self.json_answers("send", rows=messages)

    def consume(self, topics):
        """Return all messages of all queues of topics, in the order of the queues."""
        out = self.scratch / f"{next(self.numbers)}.out"
        self.call("consume", ",".join(topics), out)
        return [harness.json.loads(line) for line in out.read_text().splitlines()]

    def decode(self, files):
        """Return what a broker's managers make of files (name, data in base64), see Configs.java."""
        return self.json_answers("decode", rows=files)

    def boot(self, root, **config):
        """Start and stop a broker over a store; return its dict of started and error, see Boots.java."""
        return json.loads(self.call("boot", root, json.dumps({**BOOT, **config})))

    def stats(self, groups):
        """Return the rows of GET_CONSUME_STATS for each group, all its topics."""
        return self.json_answers("stats", rows=[{"broker": self.broker_port, "group": group} for group in groups])

    def query(self, requests):
        """Return the messages found for each request (topic, key, unique)."""
        return self.json_answers("query", rows=requests)


class Broker:
    """A broker's process over a store that has topics."""

    def __init__(self, client, root, topics, scratch, **config):
        conf = scratch / "broker.conf"
        conf.write_text(
            "".join(
                f"{name}={value}\n"
                for name, value in {
                    **CONFIG,
                    "listenPort": client.broker_port,
                    "haListenPort": client.broker_port + 1,
                    "namesrvAddr": f"127.0.0.1:{client.namesrv_port}",
                    "storePathRootDir": root,
                    "storePathCommitLog": root / "commitlog",
                    **config,
                }.items()
            )
        )
        self.out = scratch / "broker.out"
        with self.out.open("wb") as out:
            self.process = subprocess.Popen(
                [
                    "java",
                    *JVM,
                    f"-Duser.home={scratch}",
                    f"-Djava.io.tmpdir={scratch}",
                    f"-Drocketmq.home.dir={scratch}",
                    "-cp",
                    harness.classpath(client.release, client.profile),
                    "org.apache.rocketmq.broker.BrokerStartup",
                    "-c",
                    conf,
                ],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        try:
            self.wait_until_ready()
            client.call("wait", client.broker_port, ",".join(topics))
        except BaseException:
            self.kill()
            raise

    def wait_until_ready(self):
        deadline = time.monotonic() + BOOT_SECONDS
        while READY not in self.out.read_text(errors="replace"):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the broker does not start: {self.out.read_text(errors='replace')[-3000:]}")
            time.sleep(0.05)

    def stop(self):
        """Shut down as an operator does, by SIGTERM."""
        self.process.terminate()
        self.process.wait(STOP_SECONDS)

    def kill(self):
        """End the process at once, by SIGKILL."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(STOP_SECONDS)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.kill()


def free_ports():
    """Return a port that is free with the two before it and the one behind it, which a broker listens on too."""
    while True:
        port = random.SystemRandom().randrange(12_000, 30_000)  # below those that a system gives away
        if all(map(is_free, range(port - 2, port + 2))):
            return port


def is_free(port):
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
