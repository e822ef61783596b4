/* Faults in memory that is mapped from a file: a disk that cannot read a page, or a file that was cut.
 *
 * Without a guard, the system ends the process with SIGBUS. With a guard, a signal handler records the fault and
 * replaces the lost page by a page of zeros. Then the instruction that faulted runs again. Code that uses the memory
 * must check `first_fault` afterwards. If there was a fault, the code must discard what it read. */
#ifndef RS_FAULT_GUARD_H
#define RS_FAULT_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RS_NO_FAULT = -1 };

/* A guarded range of memory. `first_fault`: offset in bytes of the page that faulted first, or RS_NO_FAULT. */
typedef struct rs_guard rs_guard;

struct rs_guard {
    int64_t first_fault;
    uintptr_t begin, end;
    unsigned version; /* odd while begin and end change */
    bool is_writable;
    uint64_t *lost_pages; /* one bit a page, or NULL */
    rs_guard *next, *next_free;
};

/* Guard a mapping. `address` is the beginning of a page. `lost_pages` may be NULL; else it has a bit for each page, and
 * the bits of pages that fault are set. Returns NULL if there is no memory or no handler can be installed. */
rs_guard *rs_guard_add(void *address, size_t size, bool is_writable, uint64_t *lost_pages);

/* End the guard before the memory is unmapped. No thread may use the memory any more. */
void rs_guard_remove(rs_guard *guard);

/* Bytes in a page of memory. */
size_t rs_page_size(void);

#endif
