"""Settings with which a small Spark starts and ends quickly."""

QUICK = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def write_spark_settings(directory):
    """Write the settings into a new directory, for the variable SPARK_CONF_DIR of a program. Return the directory."""
    directory.mkdir()
    lines = [f"{name} {value}\n" for name, value in QUICK.items()]
    (directory / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")
    return directory
