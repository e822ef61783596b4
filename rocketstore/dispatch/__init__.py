"""From records to dispatch requests, and from requests to consume queues and the index.

``dispatch`` decides which units and items a record gets, ``request_chunks`` reads requests from a log, and ``reput``
follows a log that grows.
"""
