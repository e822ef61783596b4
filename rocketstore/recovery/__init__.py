"""Recovery makes a store sound after a crash: it makes a plan, and then applies it. ``recover`` is the entry.

Policy "complete": 1. ``plan_log`` finds the end of the log. Records behind the end are damage and raise an error.
2. ``plan_queues`` finds the last unit of each queue that agrees with its record, and the records without a unit.
3. ``plan_index`` finds the sound items. 4. ``apply`` saves the tail of the log, cuts it by writing zeros over it, cuts
queues and index files, dispatches the missing records, and writes the checkpoint. The plan alone is the dry run.
Policy "broker" does what a broker does at its next start. Its dry run works on links to the files.
"""
