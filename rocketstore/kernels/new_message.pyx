"""Makes new messages: a call of Message whose arguments need no conversion makes the message here.

All other calls, and those of subclasses, run ``Message.__init__``.
"""

from cpython.bytes cimport PyBytes_CheckExact
from cpython.dict cimport PyDict_CheckExact, PyDict_Copy
from cpython.list cimport PyList_CheckExact
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_Count, PyUnicode_FindChar, PyUnicode_GET_LENGTH, PyUnicode_Join
from libc.string cimport memcpy

from rocketstore.kernels.appender cimport now
from rocketstore.kernels.message_slots cimport fill_slots

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
    /* An attribute that a class itself defines: a borrowed reference, or NULL. Half the time of a look-up of it. */
    static PyObject *rs_own_attribute(PyObject *type, PyObject *name)
    {
        return PyDict_GetItemWithError(((PyTypeObject *)type)->tp_dict, name);
    }
    """
    ctypedef object (*rs_type_call)(object, PyObject *const *, size_t, PyObject *)
    void rs_set_type_call(object message_class, rs_type_call call)
    object rs_alloc(object message_class)
    object rs_call_type(object message_class, tuple args, dict named)
    PyObject *rs_own_attribute(object message_class, object name) except? NULL

cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t n) nogil
    bint PyUnicode_CheckExact(value)

# Numbers of the parameters of ``Message.__init__``. The first N_IN_SLOTS parameters are stored in slots of the message, and
# have the numbers of these slots. The next three become properties. If a call gives another value than None to
# born_timestamp or to one of the last two parameters, ``Message.__init__`` makes the message.
cdef enum:
    TOPIC
    BODY
    PROPERTIES
    QUEUE_ID
    FLAG
    SYS_FLAG
    BORN_TIMESTAMP
    BORN_HOST
    KEYS
    TAGS
    UNIQ_KEY
    STORE_TIMESTAMP
    COMPRESS
    N_PARAMETERS
    N_IN_SLOTS = KEYS

cdef tuple PARAMETERS = ("topic", "body", "properties", "queue_id", "flag", "sys_flag", "born_timestamp", "born_host",
                         "keys", "tags", "uniq_key", "store_timestamp", "compress")
cdef tuple DEFAULTS = (None, None, None, None, 0, 0, None, "127.0.0.1:0", (), None, None, None, None)
cdef PyObject *NAMES[N_PARAMETERS]
cdef PyObject *DEFAULT_VALUES[N_PARAMETERS]
for number, name in enumerate(PARAMETERS):
    NAMES[number] = <PyObject *>name
    DEFAULT_VALUES[number] = PyTuple_GET_ITEM(DEFAULTS, number)
if SLOTS != tuple("raw_body" if name == "body" else name for name in PARAMETERS[:N_IN_SLOTS]):
    raise ImportError("the slots of a message are in another order than the parameters")

cdef object message_type, message_init  # Message, and its __init__


def make_properties(dict properties not None, keys, tags, uniq_key, delay):
    """Add the properties of a new message to a dict, and return it.

    Parameters: keys: a list or tuple of str. tags, uniq_key, delay: values; None for a message without them.
    Raises: ValueError for a key with a space; TypeError for a key that is no str.
    """
    add_properties(properties, keys, tags, uniq_key)
    if delay is not None:
        properties["DELAY"] = delay
    return properties


cdef int add_properties(dict properties, keys, tags, uniq_key) except -1:
    """Add properties to a dict. Parameters: keys: a str, or a list or tuple of str. Others: as of ``make_properties``."""
    if PyUnicode_CheckExact(keys):
        properties["KEYS"] = require_one_key(keys)
    elif len(keys):
        properties["KEYS"] = join_keys(keys)
    if tags is not None:
        properties["TAGS"] = tags
    if uniq_key is not None:
        properties["UNIQ_KEY"] = uniq_key
    return 0


cdef object require_one_key(key):
    """Return a key. Raises: ValueError if it has a space."""
    if PyUnicode_FindChar(key, c" ", 0, PyUnicode_GET_LENGTH(key), 1) >= 0:
        raise key_error([key])
    return key


cdef object join_keys(keys):
    """Return the text of a property with keys, a list or tuple of str."""
    if len(keys) == 1 and PyUnicode_CheckExact(keys[0]):
        return require_one_key(keys[0])
    text = PyUnicode_Join(" ", keys)
    if PyUnicode_Count(text, " ", 0, len(text)) >= len(keys):
        raise key_error(list(keys))
    return text


cdef object key_error(list keys):
    return ValueError(f"keys={keys!r:.80}: a key has a space, and RocketMQ would make two keys of it")


def take_calls(type new_type not None):
    """Let calls of a class run ``call_message`` from now on, instead of ``__new__`` and ``__init__``.

    Parameters: new_type: Message.
    """
    global message_type, message_init
    message_type, message_init = new_type, new_type.__init__
    rs_set_type_call(new_type, call_message)


cdef object call_message(message_class, PyObject *const *args, size_t nargs, PyObject *names):
    """Return a new message. Parameters: as of a vectorcall."""
    cdef PyObject *values[N_PARAMETERS]
    cdef Py_ssize_t n = PyVectorcall_NARGS(nargs)
    # ``__init__`` may have been replaced, as tests of users do.
    if (message_class is message_type and rs_own_attribute(message_class, "__init__") == <PyObject *>message_init
            and take_arguments(values, args, n, names)):
        return make_message(values)
    positional = tuple([<object>args[i] for i in range(n)])
    words = () if names == NULL else <object>names
    return rs_call_type(message_class, positional, {word: <object>args[n + i] for i, word in enumerate(words)})


cdef bint take_arguments(PyObject **values, PyObject *const *args, Py_ssize_t n, PyObject *names) except -1:
    """Sort the arguments of a call into ``values``, with defaults. Return False if ``Message.__init__`` is needed."""
    cdef Py_ssize_t i, j, n_named = 0 if names == NULL else PyTuple_GET_SIZE(<object>names)
    cdef bint has_topic = n > 0, has_body = n > 1
    if n > 2:
        return False
    memcpy(values, DEFAULT_VALUES, sizeof(DEFAULT_VALUES))
    for i in range(n):
        values[i] = args[i]
    for i in range(n_named):
        j = find_parameter(PyTuple_GET_ITEM(<object>names, i))
        if j < n:  # an unknown name, or a parameter that has a value already
            return False
        has_topic |= j == TOPIC
        has_body |= j == BODY
        values[j] = args[n + i]
    return has_topic and has_body and are_plain(values)


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
    if not (values[BORN_TIMESTAMP] == values[STORE_TIMESTAMP] == values[COMPRESS] == <PyObject *>None):
        return False
    return PyUnicode_CheckExact(keys) or PyList_CheckExact(keys) or PyTuple_CheckExact(keys)


cdef object make_message(PyObject **values):
    """Make a message of arguments that need no conversion."""
    given = <object>values[PROPERTIES]
    cdef dict properties = {} if given is None else PyDict_Copy(given)
    add_properties(properties, <object>values[KEYS], <object>values[TAGS], <object>values[UNIQ_KEY])
    cdef object born_timestamp = now()
    values[PROPERTIES], values[BORN_TIMESTAMP] = <PyObject *>properties, <PyObject *>born_timestamp
    message = rs_alloc(message_type)
    fill_slots(message, values)
    return message
