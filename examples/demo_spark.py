"""The part of the demo that runs on Spark."""

import logging
import os
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from demo_serial import MAX_NUM, Counts, Lookups
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rocketstore import CommitLog, PhyOffsets, StoreConfig
from rocketstore.spark import build_index, rebuild_consume_queue, register, select_phy_offset

warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)

COUNT = "SELECT topic, tags, count(*) AS messages FROM messages GROUP BY topic, tags"


def count_messages(log: CommitLog) -> Counts:
    """Count the messages of a log by topic and tag, without Spark."""
    counts: Counts = Counter()
    for batch in log.scan(columns=["topic", "tags"]):
        table = pa.Table.from_batches([batch.to_arrow()]).group_by(["topic", "tags"]).aggregate([([], "count_all")])
        for row in table.to_pylist():
            counts[row["topic"], row["tags"]] += row["count_all"]
    return dict(counts)


@contextmanager
def standard_error_in(path: Path) -> Iterator[None]:
    """Redirect standard error to a file in a ``with`` block, also of new processes. Show the file after an error."""
    saved = os.dup(2)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    except Exception:
        os.write(saved, path.read_bytes())
        raise
    finally:
        os.dup2(saved, 2)
        os.close(saved)


class SparkDemo:
    """The steps of the demo in a local Spark session without output of its own."""

    def __init__(self, scratch: Path, config: StoreConfig) -> None:
        self.scratch = scratch.absolute()
        self.config = config
        os.environ["PYSPARK_PYTHON"] = sys.executable
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.session.timeZone": "UTC",
            "spark.local.dir": str(self.scratch / "spark-local"),
            "spark.sql.warehouse.dir": str(self.scratch / "warehouse"),
        }
        logging.disable()  # py4j logs each error that it also raises
        on_interrupt = signal.getsignal(signal.SIGINT)
        for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
            os.environ.pop(name, None)  # the demo uses a session of its own
        with standard_error_in(scratch / "spark.log"):
            self.session = SparkSession.builder.master("local[*]").config(map=settings).getOrCreate()
        # PySpark's own handler calls the JVM in the middle of another call, which fails with a long error.
        signal.signal(signal.SIGINT, on_interrupt)
        register(self.session)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.session.stop()

    def build_index(self, store: Path, out: Path) -> None:
        build_index(self.session, str(store.absolute()), str(out.absolute()), config=self.config)

    def rebuild_consume_queue(self, store: Path, out: Path) -> None:
        rebuild_consume_queue(self.session, str(store.absolute()), str(out.absolute()), config=self.config)

    def count_messages(self, store: Path) -> Counts:
        reader = self.session.read.format("rocketstore").option("columns", "topic,tags")
        reader.load(str(store.absolute())).createOrReplaceTempView("messages")
        return {(row.topic, row.tags): row.messages for row in self.session.sql(COUNT).collect()}

    def select_phy_offset(self, root: Path, asked: Lookups, engine: str, is_verified: bool) -> PhyOffsets:
        found = select_phy_offset(
            str(root.absolute()),
            None if asked.topics is None else F.col("topic"),
            "key",
            max_num=MAX_NUM,
            verify=is_verified,
            engine=engine,
            hash_slot_num=self.config.max_hash_slot_num,
            index_num=self.config.max_index_num,
        )
        path = self.scratch / "keys.parquet"
        if not path.exists():
            columns = {"id": np.arange(len(asked.keys)), "key": pa.array(asked.keys, pa.string())}
            topics = {} if asked.topics is None else {"topic": pa.array(asked.topics, pa.string())}
            pq.write_table(pa.table(columns | topics), path)
        table = self.session.read.parquet(str(path)).select("id", found.alias("found")).toArrow()
        column = table.sort_by("id").column("found").combine_chunks()
        offsets = column.offsets.to_numpy().astype(np.int64)
        values = column.values.to_numpy()[offsets[0] : offsets[-1]]
        return PhyOffsets(values, offsets - offsets[0])
