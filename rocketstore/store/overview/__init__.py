"""What a store has and lacks: its summary, consumer lag, missing parts, and names that it does not know.

The functions read a store by ``ReadableStore``. They change nothing.
"""
