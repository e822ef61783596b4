"""WaitingRecords: counts appended records, and wakes the thread that dispatches them."""

cdef enum:
    ALREADY_ENOUGH = -(1 << 30)  # so low that no later count calls ``hurry`` a second time


cdef class WaitingRecords:
    """An estimate of how many records wait for dispatch: several threads count, without a lock.

    Parameters: wake: called when the first record waits. hurry: called once when ``enough`` records wait.
    """

    def __init__(self, wake, hurry, Py_ssize_t enough):
        self.wake, self.hurry, self.enough = wake, hurry, enough

    def count_records(self, Py_ssize_t count):
        """Count appended records."""
        self.add(count)

    def clear(self):
        """Count from zero again: a round of dispatch begins."""
        self.is_woken = False
        self.count = 0

    cdef int add(self, Py_ssize_t count) except -1:
        self.count += count
        if not self.is_woken:
            self.is_woken = True
            self.wake()
        if self.count >= self.enough:
            self.count = ALREADY_ENOUGH
            self.hurry()
        return 0
