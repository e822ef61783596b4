"""MessageSlots: the fields of a message in slots of the object, where C code reads them without a look-up.

A new message has eight fields, each in a slot. All other fields, such as the offsets of a message that was read, are in
a dict beside the slots. Most new messages never need this dict.
"""

cimport cython
from cpython.dict cimport PyDict_Next
from cpython.object cimport PyObject_TypeCheck, PyTypeObject
from cpython.ref cimport Py_INCREF, Py_XDECREF, Py_XINCREF, PyObject
from libc.string cimport memset

cdef extern from *:
    """
    #include <structmember.h>  /* PyMemberDef, before Python 3.12 */

    /* The position in an object, in bytes, of the slot of a descriptor; -1 for a descriptor without a slot. */
    static Py_ssize_t rs_slot_place(PyObject *descriptor)
    {
        if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type))
            return -1;
        return ((PyMemberDescrObject *)descriptor)->d_member->offset;
    }
    static PyObject **rs_slot(PyObject *message, Py_ssize_t place) { return (PyObject **)((char *)message + place); }
    /* The dict beside the slots; NULL if none was made. Some Pythons make it now, and find no memory for it. */
    static PyObject *rs_dict(PyObject *message)
    {
        PyObject **place = _PyObject_GetDictPtr(message);
        if (place == NULL)
            return PyErr_NoMemory();
        return *place;
    }
    #define rs_is_interned(name) (PyUnicode_CheckExact(name) && PyUnicode_CHECK_INTERNED(name))
    """
    Py_ssize_t rs_slot_place(descriptor)
    PyObject **rs_slot(message, Py_ssize_t place)
    PyObject *rs_dict(message) except? NULL
    bint rs_is_interned(PyObject *name)

cdef extern from "Python.h":
    dict PyObject_GenericGetDict(message, void *closure)
    int PyObject_GenericSetDict(message, fields, void *closure) except -1

cdef enum:
    N_SLOTS = 8
    N_FIELDS = 14

# The fields that records are made of: those with a slot, in the order in which Message.__init__ sets them, then fields
# that only some messages have.
cdef tuple FIELDS = ("topic", "raw_body", "properties", "queue_id", "flag", "sys_flag", "born_timestamp", "born_host",
                     "body", "_stored", "store_host", "store_timestamp", "reconsume_times",
                     "prepared_transaction_offset")
SLOTS = FIELDS[:N_SLOTS]
cdef dict FIELD_NUMBERS = {name: i for i, name in enumerate(FIELDS)}
cdef Py_ssize_t PLACES[N_SLOTS]
cdef PyObject *NAMES[N_SLOTS]


@cython.auto_pickle(False)
cdef class LateDict:
    """Base class of objects that get a dict when they first need one. ``object`` would reserve room in each object."""


class MessageSlots(LateDict):
    """The slots of Message."""

    __slots__ = (*SLOTS, "__dict__", "__weakref__")

    @property
    def __dict__(self):
        """The fields as a dict, which may be changed. It is for subclasses and for code that does not know the slots.

        The values move out of the slots into the dict, and are slower to get from then on. To delete a field later,
        delete it from this dict too: ``del message.flag`` then deletes only a value in the slot.
        This package calls ``own_fields`` instead.
        """
        return move_slots(self)


cdef PyTypeObject *SLOTS_TYPE = <PyTypeObject *>MessageSlots
for number, name in enumerate(SLOTS):
    NAMES[number] = <PyObject *>name
    PLACES[number] = rs_slot_place(getattr(MessageSlots, name))
    if PLACES[number] < 0:
        raise ImportError(f"{name} is not in a slot of the object")


cdef bint has_slots(message) noexcept:
    """Return whether an object is a message."""
    return PyObject_TypeCheck(message, SLOTS_TYPE)


cdef inline int require_slots(message) except -1:
    if not has_slots(message):
        raise AttributeError(f"{message!r:.80} has no fields of a message")
    return 0


cdef dict move_slots(message):
    """Move the values of the slots into the dict, and return it."""
    cdef dict fields = PyObject_GenericGetDict(message, NULL)
    cdef PyObject *value
    cdef Py_ssize_t i
    for i in range(N_SLOTS):
        with cython.critical_section(message):
            value = rs_slot(message, PLACES[i])[0]
            if value != NULL:
                fields[SLOTS[i]] = <object>value  # first: a field is in one of the two places at any time
                rs_slot(message, PLACES[i])[0] = NULL
        Py_XDECREF(value)
    return fields


def own_fields(message):
    """Return a dict of the fields that a message stores, without those that are computed from others, as keys are."""
    cdef dict fields = {}
    cdef PyObject *value
    cdef Py_ssize_t i
    require_slots(message)
    with cython.critical_section(message):
        for i in range(N_SLOTS):
            value = rs_slot(message, PLACES[i])[0]
            if value != NULL:
                fields[SLOTS[i]] = <object>value
        value = rs_dict(message)
        others = None if value == NULL else <object>value
    if others:
        fields = others | fields
    return fields


def own_field(message, str name not None, default=None):
    """Return a field that a message stores, or the default."""
    cdef Py_ssize_t i = FIELD_NUMBERS.get(name, N_SLOTS)
    cdef PyObject *value = NULL
    require_slots(message)
    with cython.critical_section(message):
        if i < N_SLOTS:
            value = rs_slot(message, PLACES[i])[0]
        if value != NULL:
            return <object>value
        value = rs_dict(message)
        others = None if value == NULL else <object>value
    return default if others is None else (<dict>others).get(name, default)


def has_fields(message, *names):
    """Return whether a message stores all of these fields."""
    for name in names:
        if own_field(message, name, FIELDS) is FIELDS:  # an object that no field has as its value
            return False
    return True


cdef Py_ssize_t slot_number(PyObject *name) except -1:
    """Return the number of a field's slot, N_SLOTS for a field without a slot."""
    cdef Py_ssize_t i
    for i in range(N_SLOTS):
        if NAMES[i] == name:
            return i
    # Equal interned strings are one object.
    return N_SLOTS if rs_is_interned(name) else min(FIELD_NUMBERS.get(<object>name, N_SLOTS), N_SLOTS)


cdef int set_slot(message, Py_ssize_t i, value) except -1:
    cdef PyObject *old
    Py_INCREF(value)
    with cython.critical_section(message):
        old = rs_slot(message, PLACES[i])[0]
        rs_slot(message, PLACES[i])[0] = <PyObject *>value
    Py_XDECREF(old)
    return 0


cdef void fill_slots(message, PyObject **values) noexcept:
    """Set all slots of a new object, which are empty. No other thread knows the object: it needs no critical section."""
    cdef Py_ssize_t i
    for i in range(N_SLOTS):
        Py_XINCREF(values[i])
        rs_slot(message, PLACES[i])[0] = values[i]


def set_fields(message, dict fields not None):
    """Set fields of a message by their names, without a call of ``__setattr__`` or of properties of its class."""
    cdef dict others = None
    cdef Py_ssize_t i
    require_slots(message)
    for name, value in fields.items():
        i = slot_number(<PyObject *>name)
        if i < N_SLOTS:
            set_slot(message, i, value)
            continue
        if others is None:
            others = PyObject_GenericGetDict(message, NULL)
        others[name] = value


def make_messages(message_type, names, rows):
    """Return a message for each row. Parameters: names: of the fields. rows: tuples with a value for each field."""
    cdef list made = []
    cdef list numbers = [slot_number(<PyObject *>name) for name in names]
    cdef Py_ssize_t j, i, n = len(numbers)
    cdef tuple fields = tuple(names), values
    cdef dict others
    for row in rows:
        message, others, values = message_type.__new__(message_type), {}, row
        require_slots(message)
        for j in range(n):
            i = numbers[j]
            if i < N_SLOTS:
                set_slot(message, i, values[j])
            else:
                others[fields[j]] = values[j]
        PyObject_GenericSetDict(message, others, NULL)
        made.append(message)
    return made


cdef int hold_fields(message, Fields *fields) except -1:
    """Find the fields of a message that its record is made of, and hold a reference to each.

    The references are needed because Python code may change the message while it is encoded. The caller must call
    ``release_fields``, also after an error. Raises: AttributeError for another object.
    """
    cdef PyObject **values = <PyObject **>fields
    cdef PyObject *value
    cdef Py_ssize_t i
    memset(fields, 0, sizeof(Fields))
    require_slots(message)
    with cython.critical_section(message):
        for i in range(N_SLOTS):
            values[i] = rs_slot(message, PLACES[i])[0]
            Py_XINCREF(values[i])
        value = rs_dict(message)
        others = None if value == NULL else <object>value
    if others is not None:
        hold_others(<dict>others, values)
    return 0


cdef int hold_others(dict others, PyObject **values) except -1:
    """Hold fields that have no slot, and those that ``__dict__`` has moved."""
    cdef Py_ssize_t i, at = 0
    cdef PyObject *name
    cdef PyObject *value
    with cython.critical_section(others):
        while PyDict_Next(others, &at, &name, &value):
            # The look-up calls ``__eq__`` of a name that is no plain str, and this may remove the field.
            field, held = <object>name, <object>value
            i = FIELD_NUMBERS.get(field, N_FIELDS)
            if i < N_FIELDS and values[i] == NULL:
                Py_INCREF(held)
                values[i] = <PyObject *>held
    return 0


cdef void release_fields(Fields *fields) noexcept:
    """Release the references that ``hold_fields`` took."""
    cdef PyObject **values = <PyObject **>fields
    cdef Py_ssize_t i
    for i in range(N_FIELDS):
        Py_XDECREF(values[i])
