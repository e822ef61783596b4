"""The root directory of a store: its places, formats, file sizes and owners, and where its log ends.

``survey`` looks at a directory once and returns one value. ``requirements`` has what each function and command requires
of it. This room reads directories and small files. It writes ``rocketstore.json`` and takes locks, and changes nothing
else. ``judge_end`` decides from values alone whether a broker cut the log; ``cut_proof`` reads these values. Without a
proof, bytes that are no record are damage, and the records behind them are shown.
"""
