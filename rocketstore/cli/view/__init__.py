"""How commands show messages: which columns, how long values are in a table, and the messages of inner batches.

The commands find the messages. ``formats`` and ``tables`` write the rows.
"""
