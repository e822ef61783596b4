"""The life of one message: what its records, the broker's offsets and the clients' traces say about it.

find_records finds the records of a message in all topics. record_events, transactions and consumption turn them into
events, and client_traces reads what clients noted in the trace topic. The functions change nothing.
"""
