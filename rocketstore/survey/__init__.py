"""Decide where a store's log ends, from proofs that a broker cut it.

``judge_end`` decides from values alone. ``cut_proof`` reads these values from the log, the queues, the index and the
checkpoint. Without a proof, bytes that are no record are damage, and the records behind them are shown.
"""
