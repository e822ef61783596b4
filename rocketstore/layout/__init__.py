"""What the root directory of a store holds: its formats, its queues, the sizes of its files, and foreign paths.

This room looks at directories and small files. It changes nothing.
"""
