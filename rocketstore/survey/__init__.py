"""Where a store's log ends: proofs that a broker cut it, and the decision.

``judge_end`` decides from values alone. ``cut_proof`` reads these values from the log, the queues, the index and the
checkpoint. In doubt bytes are damage, and the records behind them are shown.
"""
