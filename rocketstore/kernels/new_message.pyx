"""Makes new messages: a call of Message whose arguments need no conversion makes the message here.

All other calls, and those of subclasses, run ``Message.__init__``.
"""

from cpython.bytes cimport PyBytes_CheckExact
from cpython.dict cimport PyDict_CheckExact, PyDict_Copy
from cpython.list cimport PyList_CheckExact
from cpython.object cimport PyObject, PyTypeObject
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_Count, PyUnicode_Join

from rocketstore.kernels.appender cimport now
from rocketstore.kernels.message_slots cimport set_slot

from rocketstore.kernels.message_slots import SLOTS

cdef extern from *:
    """
    typedef PyObject *(*rs_type_call)(PyObject *type, PyObject *const *args, size_t n, PyObject *names);
    static void rs_set_type_call(PyObject *type, rs_type_call call)
    {
        ((PyTypeObject *)type)->tp_vectorcall = (vectorcallfunc)call; /* subclasses do not inherit it */
    }
    static PyObject *rs_alloc(PyObject *type) { return ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, 0); }
    static PyObject *rs_call_type(PyObject *type, PyObject *args, PyObject *named)
    {
        return PyType_Type.tp_call(type, args, named);
    }
    """
    ctypedef object (*rs_type_call)(object, PyObject *const *, size_t, PyObject *)
    void rs_set_type_call(object message_class, rs_type_call call)
    object rs_alloc(object message_class)
    object rs_call_type(object message_class, tuple args, dict named)

cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t n) nogil
    bint PyUnicode_CheckExact(value)

# The parameters of Message.__init__: those whose values are kept, the first ones in slots, and those that must be None.
cdef enum:
    TOPIC
    BODY
    QUEUE_ID
    FLAG
    SYS_FLAG
    BORN_HOST
    KEYS
    TAGS
    UNIQ_KEY
    PROPERTIES
    N_KEPT
    N_IN_SLOTS = KEYS
    N_PARAMETERS = N_KEPT + 3

cdef tuple PARAMETERS = ("topic", "body", "queue_id", "flag", "sys_flag", "born_host", "keys", "tags", "uniq_key",
                         "properties", "born_timestamp", "store_timestamp", "compress")
cdef tuple DEFAULTS = (None, None, None, 0, 0, "127.0.0.1:0", (), None, None, None)
cdef PyObject *NAMES[N_PARAMETERS]
cdef Py_ssize_t SLOT_OF[N_IN_SLOTS]
cdef Py_ssize_t PROPERTIES_SLOT = SLOTS.index("properties"), BORN_TIMESTAMP_SLOT = SLOTS.index("born_timestamp")
for number, name in enumerate(PARAMETERS):
    NAMES[number] = <PyObject *>name
    if number < N_IN_SLOTS:
        SLOT_OF[number] = SLOTS.index("raw_body" if name == "body" else name)

cdef object message_type, message_init  # Message, and its __init__


def make_properties(dict properties, keys, tags, uniq_key, delay):
    """Add the properties of a new message to a dict, and return it.

    Parameters: keys: a list or tuple of str. tags, uniq_key, delay: values; None for a message without them.
    Raises: ValueError for a key with a space; TypeError for a key that is no str.
    """
    if len(keys):
        text = keys[0] if len(keys) == 1 and PyUnicode_CheckExact(keys[0]) else PyUnicode_Join(" ", keys)
        if PyUnicode_Count(text, " ", 0, len(text)) >= len(keys):
            raise ValueError(f"keys={list(keys)!r:.80}: a key has a space, and RocketMQ would make two keys of it")
        properties["KEYS"] = text
    if tags is not None:
        properties["TAGS"] = tags
    if uniq_key is not None:
        properties["UNIQ_KEY"] = uniq_key
    if delay is not None:
        properties["DELAY"] = delay
    return properties


def take_calls(type new_type not None):
    """Make the messages of calls of a class here, if their arguments need no conversion. Parameters: new_type: Message.
    """
    global message_type, message_init
    message_type, message_init = new_type, new_type.__init__
    rs_set_type_call(new_type, call_message)


cdef object call_message(message_class, PyObject *const *args, size_t nargs, PyObject *names):
    """Return a new message. Parameters: as of a vectorcall."""
    cdef PyObject *values[N_KEPT]
    cdef Py_ssize_t n = PyVectorcall_NARGS(nargs)
    # ``__init__`` may have been replaced, as tests of users do.
    if message_class is message_type and take_arguments(values, args, n, names) and message_class.__init__ is message_init:
        return make_message(values)
    positional = tuple([<object>args[i] for i in range(n)])
    words = () if names == NULL else <object>names
    return rs_call_type(message_class, positional, {word: <object>args[n + i] for i, word in enumerate(words)})


cdef bint take_arguments(PyObject **values, PyObject *const *args, Py_ssize_t n, PyObject *names) except -1:
    """Sort the arguments of a call into ``values``, with defaults. Return False if ``Message.__init__`` is needed."""
    cdef Py_ssize_t i, j, n_named = 0 if names == NULL else PyTuple_GET_SIZE(<object>names)
    if n > 2:
        return False
    for j in range(N_KEPT):
        values[j] = args[j] if j < n else NULL
    for i in range(n_named):
        j = find_parameter(PyTuple_GET_ITEM(<object>names, i))
        if j < 0:
            return False
        if j >= N_KEPT:
            if <object>args[n + i] is not None:
                return False
        elif values[j] != NULL:
            return False
        else:
            values[j] = args[n + i]
    if values[TOPIC] == NULL or values[BODY] == NULL:
        return False
    for j in range(N_KEPT):
        if values[j] == NULL:
            values[j] = PyTuple_GET_ITEM(DEFAULTS, j)
    return are_plain(values)


cdef inline Py_ssize_t find_parameter(PyObject *name) noexcept:
    """Return the number of a parameter, -1 for another name. Names in calls are interned: equal ones are one object."""
    cdef Py_ssize_t j
    for j in range(N_PARAMETERS):
        if NAMES[j] == name:
            return j
    return -1


cdef bint are_plain(PyObject **values) except -1:
    """Return whether no argument of a new message must be converted."""
    keys, properties = <object>values[KEYS], <object>values[PROPERTIES]
    if not PyBytes_CheckExact(<object>values[BODY]) or not (properties is None or PyDict_CheckExact(properties)):
        return False
    return PyUnicode_CheckExact(keys) or PyList_CheckExact(keys) or PyTuple_CheckExact(keys)


cdef object make_message(PyObject **values):
    """Make a message of arguments that need no conversion."""
    cdef Py_ssize_t i
    keys, given = <object>values[KEYS], <object>values[PROPERTIES]
    properties = make_properties({} if given is None else PyDict_Copy(given),
                                 (keys,) if PyUnicode_CheckExact(keys) else keys, <object>values[TAGS],
                                 <object>values[UNIQ_KEY], None)
    message = rs_alloc(message_type)
    for i in range(N_IN_SLOTS):
        set_slot(message, SLOT_OF[i], <object>values[i])
    set_slot(message, PROPERTIES_SLOT, properties)
    set_slot(message, BORN_TIMESTAMP_SLOT, now())
    return message
