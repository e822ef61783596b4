"""Build index files and consume queues in Spark tasks. A directory appears when all files in it are complete."""
