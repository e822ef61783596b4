"""Find messages by key, tag or id, by queue offset, or by time.

``query_messages`` finds messages by key, tag or id in the index, and compares each with its record. ``coverage`` finds
the messages that the index lacks. ``get_message`` reads a queue as a consumer does. ``by_time`` finds where the
messages of a time begin.
"""
