"""The limits of Java's int and long, the types of the numbers in a store, and of clocks."""

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
CLOCK_SLACK = 3_600_000  # ms; a clock may be set back by so much without an effect on the choice of files by time
