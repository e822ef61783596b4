"""What waits in a store: delayed and timer messages, half messages, invisible popped messages, delayed retries.

Each module finds one kind, from the queues of the broker's system topics and from its checkpoints. Rows that lie beyond
a checkpoint are compared with the messages that were delivered. The functions change nothing.
"""
