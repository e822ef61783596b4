# Where the fields of units are. See consume_queue.pyx for the picture.

cdef enum:
    UNIT_SIZE = 20
    BATCH_UNIT_SIZE = 46
    SIZE = 8
    TAGS_CODE = 12
    STORE_TIMESTAMP = 20
    MSG_BASE_OFFSET = 28
    BATCH_SIZE = 36
    COMPACTED_OFFSET = 38
    RESERVED = 42
    EXT_TAGS_CODE = 2
    EXT_STORE_TIMESTAMP = 10
    EXT_BITMAP_SIZE = 18
    EXT_BITMAP = 20
