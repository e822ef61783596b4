"""The settings of a local Spark session that is measured."""

import os
import sys
from pathlib import Path


def local_settings(scratch: Path, name: str) -> dict[str, str]:
    """Return the settings of a session without output of its own, whose workers run this Python.

    Parameters: name: of the session's directory in ``scratch``.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(scratch / name),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
