"""From records to dispatch requests, and from requests to consume queues and the index.

``dispatcher`` decides which units and items a record gets, and ``light_queues`` which queues besides its own.
``request_chunks`` reads requests from a log with threads, ``reput`` dispatches what a writer appends, and ``follow``
reads a log that another process writes. This room does not decide where the log ends: ``log`` does.
"""
