from rocketstore.kernels.arrow_structs cimport ArrowArray, ArrowSchema


cdef const char *find_contradiction(const ArrowSchema *schema, const ArrowArray *array, int depth) noexcept nogil
