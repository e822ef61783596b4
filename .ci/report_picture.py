"""Make docs/images/report.png: a store of 36 hours of messages, its report page, and the first screen of the page.

Run as ``python .ci/report_picture.py``. It needs chromium.
"""

import json
import math
import random
import subprocess
import tempfile
from pathlib import Path

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.report.make_report import make_report

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "report.png"
WIDTH, HEIGHT = 1100, 1000  # pixels
BEGIN = 1_795_600_000_000
TOPICS = {  # messages of one minute in 17, and tags
    "orders": (5, ("created", "paid", "shipped")),
    "clicks": (4, (None, "mobile")),
    "payments": (3, ("card", "sepa")),
    "inventory": (2, ("reserve", "release")),
    "mail": (2, (None,)),
    "audit": (1, ("login", "logout")),
}
LAGS = {("orders", "billing"): 0.02, ("orders", "shipping"): 0.18, ("mail", "mailer"): 0.05}
STOPPED = range(1500, 1523)  # minutes
CONFIG = StoreConfig(mapped_file_size_commit_log=16 << 20, max_hash_slot_num=50_000, max_index_num=120_000)


def write_store(root: Path) -> None:
    rng = random.Random(7)
    with rocketstore.open(root, "a", config=CONFIG) as store:
        for minute in range(36 * 60):
            rate = 0 if minute in STOPPED else 110 + 80 * math.sin(minute / 1440 * 2 * math.pi)
            for number, (topic, (weight, tags)) in enumerate(TOPICS.items()):
                messages = [
                    Message(
                        topic,
                        rng.randbytes(int(rng.lognormvariate(5.2, 1))),
                        tags=rng.choice(tags),
                        keys=[f"{topic}-{minute}-{n}"],
                        queue_id=n % 4,
                    )
                    for n in range(int(rate * weight / 17 * rng.uniform(0.6, 1.5)))
                ]
                if messages:
                    store.put_messages(messages, store_timestamp=BEGIN + 60_000 * minute + 8000 * number)
        offsets = {
            f"{topic}@{group}": {
                str(queue): int(store.consume_queue(topic, queue).max_queue_offset * (1 - lag)) for queue in range(4)
            }
            for (topic, group), lag in LAGS.items()
        }
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        root, page = Path(directory) / "broker-a", Path(directory) / "report.html"
        write_store(root)
        with rocketstore.open(root) as store:
            page.write_text(make_report(store).replace(str(root), "/data/rocketmq/broker-a"), encoding="utf-8")
        PICTURE.parent.mkdir(exist_ok=True)
        subprocess.run(
            [
                "chromium",
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                f"--window-size={WIDTH},{HEIGHT}",
                "--virtual-time-budget=20000",
                f"--screenshot={PICTURE}",
                page.as_uri(),
            ],
            check=True,
            capture_output=True,
        )


if __name__ == "__main__":
    main()
