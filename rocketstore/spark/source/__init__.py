"""The data source: options, planning on the driver, and reading messages, streams and tables; the sink that writes."""

from rocketstore.spark.source.data_source import RocketStoreDataSource

__all__ = ["RocketStoreDataSource"]
