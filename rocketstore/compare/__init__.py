"""Compare two stores, A and B. ``diff`` is the entry.

``log_bytes`` compares the logs by physical offset, ``queue_units`` the units of the queues, and ``index_entries`` the
entries of the indexes. For stores whose physical offsets differ, ``queue_messages`` compares the messages of the queues
instead, and whether the index finds them. ``broker_tables`` compares topics, groups and offsets. ``differences`` lists
the kinds of differences and collects them. All parts are read in steps of some megabytes. Both stores are only read.
"""
