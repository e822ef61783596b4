"""Read a store as a dataset: ``store.dataset()`` for DuckDB and pyarrow, ``rocketstore.scan_polars`` for polars.

A filter of these libraries becomes ``Bounds``: the values of a few columns that the messages which pass it can have.
The reader reads the messages within the bounds, from the index or by a scan, and only the columns that the query needs.
The filter itself is then computed by Arrow or polars. So a filter that no bounds describe costs time, and the answer
is right. The room does not parse SQL, and it computes no filter.
"""
