"""PlainPut: append a plain message in one call."""

cimport cython
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyTypeObject
from cpython.ref cimport PyObject
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport int64_t, uint8_t, uint64_t

from rocketstore.kernels.appender cimport LARGE_WRITE, Appender, QueueOffset, now
from rocketstore.kernels.buffer cimport RS_HAS_GIL
from rocketstore.kernels.csrc cimport rs_release_fence, rs_store_be64
from rocketstore.kernels.message_slots cimport Fields, has_slots, hold_fields, release_fields
from rocketstore.kernels.record cimport BORN_HOST, PHY_OFFSET, QUEUE_OFFSET
from rocketstore.kernels.record_encoder cimport Parts, RecordEncoder, encode, encode_head
from rocketstore.kernels.waiting_records cimport WaitingRecords

cdef extern from *:
    """
    /* Make a PutMessageResult. The type's own __new__ takes twice the time. */
    static PyObject *rs_put_result(PyTypeObject *type, long long phy_offset, int size, PyObject *queue_id,
                                   long long queue_offset, long long store_timestamp, PyObject *store_host)
    {
        PyObject *result = type->tp_alloc(type, 6);
        if (result == NULL)
            return NULL;
        PyTuple_SET_ITEM(result, 0, PyLong_FromLongLong(phy_offset));
        PyTuple_SET_ITEM(result, 1, PyLong_FromLong(size));
        PyTuple_SET_ITEM(result, 2, Py_NewRef(queue_id));
        PyTuple_SET_ITEM(result, 3, PyLong_FromLongLong(queue_offset));
        PyTuple_SET_ITEM(result, 4, PyLong_FromLongLong(store_timestamp));
        PyTuple_SET_ITEM(result, 5, Py_NewRef(store_host));
        if (PyErr_Occurred())
            Py_CLEAR(result);
        return result;
    }
    """
    object rs_put_result(PyTypeObject *type, long long phy_offset, int size, queue_id,
                         long long queue_offset, long long store_timestamp, store_host)

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(value, int *overflow) noexcept

cdef enum:
    N_RECENT = 16


@cython.final
cdef class PlainPut:
    """Appends plain messages with the present store time, as ``StoreWriter.put_message`` does, but faster.

    ``put`` returns None, and changes nothing, in these cases. ``StoreWriter.put_message`` must then append the message:
    - The message is not plain: see ``RecordEncoder.find_plain_parts``. Such a message needs a check, or Python code,
      which may take any time, be interrupted by a signal, and put messages itself.
    - The message has no queue id: Python code chooses the queue.
    - It is the first message of its queue, or of its born host: Python code finds the queue offset or encodes the host.
    - Records have a CRC property: it is computed when the offsets in the record are known.
    - The record has 32 KiB or more: system calls write it without the GIL.
    - The file has no room for the record, its memory is closed, or the disk cannot read a part of it.
    - ``close`` was called, because the writer is closed or has failed.
    - The store belongs to the process that forked this process.
    - Another call has the log's lock.

    With a GIL, a put takes no lock. It begins only while no call has the lock. Until the message is in the log, it runs
    neither Python code nor the garbage collector. So no other thread, no signal handler and no Ctrl-C comes in between,
    and the thread need not be among the BusyThreads. Without a GIL, a put takes the lock. While it has the lock, it runs
    no Python code either: the thread that dispatches is woken afterwards.

    Parameters: appender, records, lock: of the log. result_type: PutMessageResult.
    """

    cdef Appender appender
    cdef RecordEncoder records
    cdef object lock
    cdef object is_locked
    cdef object owner
    cdef WaitingRecords waiting
    cdef type result_type
    cdef bint is_closed
    cdef list recent  # the QueueOffset of a recently used queue, or None, at the place queue_id % N_RECENT

    def __init__(self, Appender appender, RecordEncoder records, lock, type result_type):
        self.appender, self.records, self.lock, self.is_locked = appender, records, lock, lock.locked
        self.result_type = result_type
        self.recent = [None] * N_RECENT

    def open(self, owner, WaitingRecords waiting not None):
        """Accept messages, unless ``close`` was called.

        Parameters: owner: the StoreLock of the store. waiting: counts the appended records.
        """
        self.waiting, self.owner = waiting, owner

    def close(self):
        """Return None from all later calls of ``put``."""
        self.is_closed = True

    cpdef object put(self, message):
        """Append a message. Return its PutMessageResult, or None if ``StoreWriter.put_message`` must append it."""
        cdef Fields own
        if self.is_closed or self.owner is None or not has_slots(message):
            return None
        try:
            hold_fields(message, &own)
            if own.topic == NULL or own.queue_id == NULL:
                return None
            if RS_HAS_GIL:
                offset = self.find_offset(&own)  # may run the garbage collector: before the lock is checked
                result = None if self.is_locked() else self.append(&own, offset)
            elif self.lock.acquire(False):
                try:
                    result = self.append(&own, self.find_offset(&own))
                finally:
                    self.lock.release()
            else:
                result = None
            if result is not None:
                self.waiting.add(1)
            return result
        finally:
            release_fields(&own)

    cdef QueueOffset find_offset(self, const Fields *own):
        """Return the QueueOffset of the message's queue. Return None for a new queue, or if the message is not plain."""
        cdef QueueOffset found
        cdef int is_beyond = 0
        cdef int64_t queue_id
        if not (PyUnicode_CheckExact(<object>own.topic) and PyLong_CheckExact(<object>own.queue_id)):
            return None
        queue_id = PyLong_AsLongLongAndOverflow(<object>own.queue_id, &is_beyond)
        if is_beyond:
            return None
        found = self.recent[queue_id & (N_RECENT - 1)]
        if found is None or <PyObject *>found.topic != own.topic or found.queue_id != queue_id:
            found = self.appender.offsets.get((<object>own.topic, <object>own.queue_id))
            if found is not None:
                found.topic = <str>own.topic  # so that the next message with this str object needs no look-up
                self.recent[queue_id & (N_RECENT - 1)] = found
        return found

    cdef object append(self, const Fields *own, QueueOffset offset):
        """Append a message if it is plain. With a GIL, nothing else runs from here until its offsets are stored."""
        cdef Appender appender = self.appender
        cdef RecordEncoder records = self.records
        cdef Parts parts
        cdef int64_t queue_offset, time, phy_offset
        cdef uint8_t *into
        if (offset is None or self.is_closed or appender.buffer is None or appender.buffer.closing or records.append_prop_crc
                or not self.owner.owned or not records.find_plain_parts(own, &parts)
                or records.lay_out(&parts) is not None):
            return None
        if parts.size >= LARGE_WRITE or not appender.has_room(parts.size) or not appender.is_reserved(parts.size):
            return None
        queue_offset, time, phy_offset = offset.following, now(), appender.from_offset + appender.position
        appender.prepare(parts.size)
        into = appender.buffer.data + appender.position
        encode(into, &parts)
        rs_store_be64(into + QUEUE_OFFSET, <uint64_t>queue_offset)
        rs_store_be64(into + PHY_OFFSET, <uint64_t>phy_offset)
        rs_store_be64(into + BORN_HOST + parts.born_host.size, <uint64_t>time)
        rs_release_fence()  # a reader must not see the head before the other bytes of the record
        encode_head(into, &parts)
        if appender.buffer.is_faulty():
            return None  # ``StoreWriter.put_message`` raises the error
        offset.following = queue_offset + 1
        appender.last_phy_offset, appender.last_store_timestamp = phy_offset, time
        appender.position += parts.size
        return rs_put_result(<PyTypeObject *>self.result_type, phy_offset, parts.size, <object>own.queue_id, queue_offset,
                             time, records.store_host)


@cython.auto_pickle(False)
cdef class PlainPutStore:
    """Base class of MessageStore. It has the PlainPut of the store where C code finds it without a look-up."""

    cdef PlainPut plain_put  # None if the store is open for reading, or if its puts wait for the disk

    def _set_plain_put(self, PlainPut plain_put):
        """Let ``put_plain`` append the messages of this store from now on."""
        self.plain_put = plain_put


def put_plain(PlainPutStore store not None, message):
    """Append a message to a store, as ``PlainPut.put`` does. Return None if ``_set_plain_put`` was not called."""
    return None if store.plain_put is None else store.plain_put.put(message)
