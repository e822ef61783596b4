"""Lets Spark find the data source ``rocketstore`` without registration. Spark imports all packages ``pyspark_*``."""

# If one of these packages cannot be imported, Spark finds none of their data sources. Any query may import them all.
try:
    from pyspark.sql.datasource import DataSource

    class DefaultSource(DataSource):
        @classmethod
        def name(cls):
            return "rocketstore"

        def __new__(cls, options):
            from rocketstore.spark.source.data_source import RocketStoreDataSource

            return RocketStoreDataSource(options)

except Exception:
    pass
