"""``MessageStore``: log, queues and index together. Put, get, query, flush, expire, summarise."""
