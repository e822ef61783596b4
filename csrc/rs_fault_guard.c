#define _GNU_SOURCE
#include "rs_fault_guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if !defined(MAP_ANONYMOUS)
#define MAP_ANONYMOUS MAP_ANON
#endif

/* Guards are added and removed under the mutex. The signal handler takes none: it reads a list that only ever grows,
 * and the ranges in it by their version. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static rs_guard *all_guards, *free_guards;
static struct sigaction previous_bus, previous_segv;
static int has_passed_on, was_sent_again;
static size_t page_size;

static void lock(void) { pthread_mutex_lock(&mutex); }
static void unlock(void) { pthread_mutex_unlock(&mutex); }

size_t rs_page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

/* ---- the handler: only calls that are safe in one ---- */

static bool read_range(const rs_guard *guard, uintptr_t *begin_ret, uintptr_t *end_ret)
{
    unsigned version = __atomic_load_n(&guard->version, __ATOMIC_ACQUIRE);
    *begin_ret = __atomic_load_n(&guard->begin, __ATOMIC_RELAXED);
    *end_ret = __atomic_load_n(&guard->end, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return version % 2 == 0 && version == __atomic_load_n(&guard->version, __ATOMIC_RELAXED);
}

static rs_guard *guard_of(uintptr_t address)
{
    uintptr_t begin, end;
    for (rs_guard *guard = __atomic_load_n(&all_guards, __ATOMIC_ACQUIRE); guard != NULL; guard = guard->next) {
        while (!read_range(guard, &begin, &end)) /* another thread changes it at this moment */
            continue;
        if (address >= begin && address < end)
            return guard;
    }
    return NULL;
}

/* Replace the page at an address by zeros. Record the fault first: a thread that sees the zeros must also see it. */
static bool replace_page(uintptr_t address)
{
    rs_guard *guard = guard_of(address);
    if (guard == NULL)
        return false;
    uintptr_t page = address - address % page_size;
    size_t number = (page - guard->begin) / page_size;
    int64_t none = RS_NO_FAULT;
    if (guard->lost_pages != NULL)
        __atomic_fetch_or(&guard->lost_pages[number / 64], UINT64_C(1) << number % 64, __ATOMIC_SEQ_CST);
    __atomic_compare_exchange_n(&guard->first_fault, &none, (int64_t)(number * page_size), false, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
    int access = PROT_READ | (guard->is_writable ? PROT_WRITE : 0);
    return mmap((void *)page, page_size, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

static void end_by_default(int number, bool is_sent)
{
    struct sigaction by_default = {0};
    by_default.sa_handler = SIG_DFL;
    sigaction(number, &by_default, NULL);
    if (is_sent) /* a fault comes again by itself */
        raise(number);
}

static bool is_pending(int number)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, number) == 1;
}

/* Pass a signal that is not about guarded memory to the handler that was installed before. Python's faulthandler then
 * sends the signal to its own process again. That second signal ends the process. It may come to this handler, since
 * faulthandler restores the handler that it found. */
static void pass_on(int number, siginfo_t *info, void *context)
{
    const struct sigaction *previous = number == SIGBUS ? &previous_bus : &previous_segv;
    bool is_sent = info->si_code <= 0;
    bool has_siginfo = (previous->sa_flags & SA_SIGINFO) != 0;
    bool is_again = __atomic_exchange_n(&was_sent_again, 0, __ATOMIC_SEQ_CST) && info->si_pid == getpid();
    if ((!has_siginfo && (previous->sa_handler == SIG_DFL || previous->sa_handler == SIG_IGN)) ||
        (is_sent && (is_again || __atomic_load_n(&has_passed_on, __ATOMIC_SEQ_CST)))) {
        end_by_default(number, is_sent);
        return;
    }
    if (!is_sent)
        __atomic_store_n(&has_passed_on, 1, __ATOMIC_SEQ_CST);
    if (has_siginfo)
        previous->sa_sigaction(number, info, context);
    else
        previous->sa_handler(number);
    if (is_sent && is_pending(number)) /* it is blocked until this handler returns */
        __atomic_store_n(&was_sent_again, 1, __ATOMIC_SEQ_CST);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    bool is_replaced = info->si_code > 0 && !(number == SIGBUS && info->si_code == BUS_ADRALN) &&
                       replace_page((uintptr_t)info->si_addr);
    errno = saved;
    if (!is_replaced)
        pass_on(number, info, context);
}

/* ---- adding and removing ---- */

/* Install our handler, also over one that other code has installed since the last call. */
static bool install(int number, struct sigaction *previous)
{
    struct sigaction current, ours = {0};
    if (sigaction(number, NULL, &current))
        return false;
    if ((current.sa_flags & SA_SIGINFO) && current.sa_sigaction == on_fault)
        return true;
    *previous = current;
    ours.sa_sigaction = on_fault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&ours.sa_mask);
    return !sigaction(number, &ours, NULL);
}

static bool install_all(void)
{
    if (page_size == 0) {
        if (pthread_atfork(lock, unlock, unlock))
            return false;
        page_size = rs_page_size();
    }
#ifdef __APPLE__
    if (!install(SIGSEGV, &previous_segv))
        return false;
#endif
    return install(SIGBUS, &previous_bus);
}

static void set_range(rs_guard *guard, uintptr_t begin, uintptr_t end)
{
    __atomic_fetch_add(&guard->version, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&guard->begin, begin, __ATOMIC_RELAXED);
    __atomic_store_n(&guard->end, end, __ATOMIC_RELAXED);
    __atomic_fetch_add(&guard->version, 1, __ATOMIC_SEQ_CST);
}

static rs_guard *take_guard(void)
{
    rs_guard *guard = free_guards;
    if (guard != NULL) {
        free_guards = guard->next_free;
        return guard;
    }
    guard = calloc(1, sizeof *guard);
    if (guard != NULL) {
        guard->next = all_guards;
        __atomic_store_n(&all_guards, guard, __ATOMIC_RELEASE);
    }
    return guard;
}

rs_guard *rs_guard_add(void *address, size_t size, bool is_writable, uint64_t *lost_pages)
{
    uintptr_t begin = (uintptr_t)address;
    lock();
    rs_guard *guard = install_all() ? take_guard() : NULL;
    if (guard != NULL) {
        guard->first_fault = RS_NO_FAULT;
        guard->is_writable = is_writable;
        guard->lost_pages = lost_pages;
        /* The last page is mapped whole. */
        set_range(guard, begin, begin + (size + page_size - 1) / page_size * page_size);
    }
    unlock();
    return guard;
}

void rs_guard_remove(rs_guard *guard)
{
    lock();
    set_range(guard, 0, 0);
    guard->lost_pages = NULL;
    guard->next_free = free_guards;
    free_guards = guard;
    unlock();
}
