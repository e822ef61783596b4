"""Answers with messages: by key, tag or id from the index, each compared with its record, by queue offset, by time.

``query_messages`` finds messages by key, ``coverage`` says which of them the index may lack, ``get_message`` reads a
queue as a consumer does, ``by_time`` finds where the messages of a time begin.
"""
