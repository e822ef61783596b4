"""By this Spark finds the data source ``rocketstore`` by itself: it imports every top-level package ``pyspark_*``."""

# One such package that cannot be imported hides the data sources of all, and each query may import it.
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
