"""The data source ``rocketstore``: options, plans on the driver, readers of messages and tables, stream and sink."""

from rocketstore.spark.source.data_source import RocketStoreDataSource as RocketStoreDataSource
