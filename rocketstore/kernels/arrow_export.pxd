cdef object export_list(object offsets, object values, bint large)
cdef bint wants_small_list(object requested_schema) except -1
