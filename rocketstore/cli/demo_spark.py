"""The half of the demo that runs on Spark."""

import logging
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rocketstore.cli.demo import MAX_NUM, STRIDE, Lookups, Messages
from rocketstore.kernels.phy_offsets import PhyOffsets
from rocketstore.spark import select_phy_offset, write_index

__all__ = ["SparkDemo"]

warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)


@contextmanager
def standard_error_in(path: Path) -> Iterator[None]:
    """Have processes that are started meanwhile write standard error to a file; show it if that fails."""
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
    """A local Spark session that says nothing, and what the demo does with it."""

    def __init__(self, scratch: Path) -> None:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.session.timeZone": "UTC",
            "spark.local.dir": str(scratch.absolute() / "spark-local"),
            "spark.sql.warehouse.dir": str(scratch.absolute() / "warehouse"),
        }
        logging.disable()  # py4j logs what it raises
        on_interrupt = signal.getsignal(signal.SIGINT)
        with standard_error_in(scratch / "spark.log"):
            self.session = SparkSession.builder.master("local[*]").config(map=settings).getOrCreate()
        # PySpark's own handler calls the JVM in the middle of another call, which fails with many words.
        signal.signal(signal.SIGINT, on_interrupt)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.session.stop()

    def write_index(self, messages: Messages, out: Path, geometry: tuple[int, int]) -> None:
        frame = self.session.range(messages.count).select(
            F.md5(F.col("id").cast("string")).alias("key"),
            (F.col("id") * messages.size).alias("phyOffset"),
            F.expr(f"{messages.begin_timestamp} + id div {messages.per_millisecond}").alias("storeTimestamp"),
        )
        write_index(
            frame,
            str(out.absolute()),
            key="key",
            phy_offset="phyOffset",
            store_timestamp="storeTimestamp",
            topic=messages.topic,
            hash_slot_num=geometry[0],
            index_num=geometry[1],
        )

    def select_phy_offset(
        self, directory: Path, asked: Lookups, geometry: tuple[int, int] | None, engine: str
    ) -> PhyOffsets:
        slots, items = geometry or (None, None)
        found = select_phy_offset(
            str(directory.absolute()),
            asked.topic,
            "key",
            max_num=MAX_NUM,
            engine=engine,
            hash_slot_num=slots,
            index_num=items,
        )
        table = self.keys(asked).select("id", found.alias("found")).toArrow()
        column = table.sort_by("id").column("found").combine_chunks()
        offsets = column.offsets.to_numpy().astype(np.int64)
        values = column.values.to_numpy()[offsets[0] : offsets[-1]]
        return PhyOffsets(values, offsets - offsets[0])

    def keys(self, asked: Lookups) -> DataFrame:
        """The keys in order: as given, or made on the workers as ``Lookups.keys`` makes them here."""
        if asked.given is not None:
            rows = list(enumerate(asked.given))
            return self.session.createDataFrame(rows, "id long, key string")
        number = F.when(F.col("id") < asked.present, F.col("id") * STRIDE % max(asked.messages, 1)).otherwise(
            F.col("id") - asked.present + asked.messages
        )
        return self.session.range(len(asked)).select("id", F.md5(number.cast("string")).alias("key"))
