"""The root directory of a store: its formats, its queues, the sizes of its files, and paths that lead to other stores.

This room reads directories and small files. It changes nothing. For the bytes in the files see ``kernels/layout``.
"""
