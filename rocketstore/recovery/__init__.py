"""Recovery makes a store sound after a crash: it makes a plan, and then applies it. ``recover`` is the entry.

"complete": 1. ``plan_log`` finds the end of the log. Bytes behind it are damage, unless a torn record explains them.
2. ``plan_queues`` finds the last unit of each queue that agrees with its record, and what records have no unit.
3. ``plan_index`` finds the items that are sound. 4. ``apply`` saves and cuts the tail of the log, cuts queues and index
files, dispatches the missing records, and writes the checkpoint. Without ``apply`` the plan is the dry run.
"broker": does what a broker does at its next start. Its dry run works on links to the files.
"""
