#define _GNU_SOURCE
#include "rs_fault_guard.h"

#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "test_util.h"

enum { PAGES = 8 };

/* The compiler does not know that reading memory may change what a handler changes. */
static int64_t first_fault(const rs_guard *guard)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return __atomic_load_n(&guard->first_fault, __ATOMIC_SEQ_CST);
}

/* A file of so many pages in memory, of which only the first `left` are still there. */
static uint8_t *map_cut_file(size_t left, int access)
{
    size_t page = rs_page_size();
    FILE *file = tmpfile();
    CHECK(file != NULL && ftruncate(fileno(file), (off_t)(PAGES * page)) == 0, "%zu pages", left);
    uint8_t *map = mmap(NULL, PAGES * page, access, MAP_SHARED, fileno(file), 0);
    CHECK(map != MAP_FAILED, "%zu pages", left);
    CHECK(ftruncate(fileno(file), (off_t)(left * page)) == 0, "%zu pages", left);
    fclose(file);
    return map;
}

static void check_that_lost_pages_are_zeros(void)
{
    size_t page = rs_page_size();
    uint64_t lost = 0;
    uint8_t *map = map_cut_file(5, PROT_READ);
    rs_guard *guard = rs_guard_add(map, PAGES * page, false, &lost);
    CHECK(guard != NULL && first_fault(guard) == RS_NO_FAULT, "before any fault");
    CHECK(*(volatile uint8_t *)(map + 4 * page) == 0 && first_fault(guard) == RS_NO_FAULT, "a page that is there");
    CHECK(*(volatile uint8_t *)(map + 7 * page + 5) == 0, "page 7");
    CHECK(*(volatile uint8_t *)(map + 5 * page) == 0, "page 5");
    CHECK(first_fault(guard) == (int64_t)(7 * page) && lost == (1u << 7 | 1u << 5), "%lld %llx",
          (long long)guard->first_fault, (unsigned long long)lost);
    rs_guard_remove(guard);
    munmap(map, PAGES * page);
}

static void check_that_a_lost_page_can_be_written(void)
{
    size_t page = rs_page_size();
    uint8_t *map = map_cut_file(1, PROT_READ | PROT_WRITE);
    rs_guard *guard = rs_guard_add(map, PAGES * page - 1, true, NULL);
    memset(map, 1, PAGES * page);
    CHECK(first_fault(guard) == (int64_t)page, "%lld", (long long)guard->first_fault);
    rs_guard_remove(guard);
    munmap(map, PAGES * page);
}

static void check_that_other_memory_still_faults(void)
{
    pid_t child = fork();
    if (child == 0) {
        uint8_t *map = map_cut_file(0, PROT_READ);
        rs_guard *guard = rs_guard_add(map, rs_page_size(), false, NULL);
        rs_guard_remove(guard);
        _exit(*(volatile uint8_t *)map);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status != 0, "the child survived"); /* a sanitizer makes it an exit */
}

static void check_that_guards_are_used_again(void)
{
    rs_guard *guards[100];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++) {
            uint8_t *map = map_cut_file(0, PROT_READ);
            guards[i] = rs_guard_add(map, PAGES * rs_page_size(), false, NULL);
            CHECK(*(volatile uint8_t *)(map + (size_t)i % PAGES * rs_page_size()) == 0, "guard %d", i);
            CHECK(first_fault(guards[i]) == (int64_t)((size_t)i % PAGES * rs_page_size()), "guard %d", i);
        }
        for (int i = 0; i < 100; i++)
            rs_guard_remove(guards[i]);
    }
}

static sigjmp_buf after_fault;
static uint8_t *volatile reported_address;

static void note_address(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    reported_address = info->si_addr;
    siglongjmp(after_fault, 1);
}

/* Return whether a fault comes with its address. QEMU 7.2 reports another one when it runs programs for s390x. */
static bool are_faults_located(void)
{
    struct sigaction noting = {0}, before;
    uint8_t *map = map_cut_file(0, PROT_READ);
    noting.sa_sigaction = note_address;
    noting.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &noting, &before);
    if (sigsetjmp(after_fault, 1) == 0)
        (void)*(volatile uint8_t *)map;
    sigaction(SIGBUS, &before, NULL);
    munmap(map, PAGES * rs_page_size());
    return reported_address == map;
}

int main(void)
{
    if (!are_faults_located()) {
        puts("fault_guard: not tested, the system reports no address of a fault");
        return 0;
    }
    check_that_lost_pages_are_zeros();
    check_that_a_lost_page_can_be_written();
    check_that_guards_are_used_again();
    check_that_other_memory_still_faults();
    return 0;
}
