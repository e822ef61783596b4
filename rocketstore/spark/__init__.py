"""Use stores in Spark: a data source with a sink and a stream, lookups of keys, and builds of indexes and queues.

This room needs pyspark, pandas and pyarrow.
"""

try:
    import pandas
    import pyarrow
    import pyspark
except ImportError as error:
    raise ImportError(
        f'rocketstore.spark needs pyspark, pandas and pyarrow ({error}): pip install "rocketstore[spark]"'
    ) from error

from rocketstore.spark.build.build_index import build_index
from rocketstore.spark.build.directories import BuildReport
from rocketstore.spark.build.rebuild_consume_queue import rebuild_consume_queue
from rocketstore.spark.build.write_index import write_index
from rocketstore.spark.lookup.query_messages import query_messages
from rocketstore.spark.lookup.udfs import hash_keys, select_phy_offset
from rocketstore.spark.source.data_source import register
from rocketstore.spark.source.read import read
from rocketstore.spark.source.stream_lag import StreamLag, stream_lag

del pandas, pyarrow, pyspark

__all__ = ["BuildReport", "StreamLag", "build_index", "hash_keys", "query_messages", "read"]
__all__ += ["rebuild_consume_queue", "register", "select_phy_offset", "stream_lag", "write_index"]
