"""Distributed builds of index files and consume queues. A directory appears when all files in it are complete."""
