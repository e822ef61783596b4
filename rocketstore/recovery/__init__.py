"""Recovery makes a store sound after a crash: find the end of the log, then of queues and index, and apply the plan.

``recover`` is the entry. ``complete`` loses as little as possible and copies bytes before it cuts them off.
``broker`` does what RocketMQ does at its next start.
"""
