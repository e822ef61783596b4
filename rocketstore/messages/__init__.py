"""Messages as users see them: one message, a batch of messages as columns, ids, body codecs, Arrow input.

This room knows nothing of files. Kernels turn messages into records and back.
"""
