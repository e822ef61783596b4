/* Preloaded into a process that writes a store. On paths under one directory, and on no others, it counts calls,
 * fails the n-th of a kind, kills the process before the n-th, and keeps a journal of what was synced.
 * It does nothing before faults_watch() is called, so that the interpreter starts as ever.
 *
 * The journal, one event a line, in the order in which things happened:
 *     create PATH | mkdir PATH | rmdir PATH | unlink PATH COPY | rename FROM TO COPY | sync PATH COPY | dirsync PATH
 * COPY: a file beside the journal with the bytes as they were then; of what a rename replaces; 0 for nothing.
 * A recorded sync is not passed on: nothing but the journal looks at what it does. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SYNC, WRITE, ALLOCATE, RENAME, OPEN, MMAP, KINDS };
enum { FILE_SYNCS_LIE = 1, DIRECTORY_SYNCS_LIE = 2 };
enum { SHORT = -1 }; /* instead of an errno: half of the bytes are written, which is no error */

typedef char Path[PATH_MAX + 16];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static Path root, shadow, fired;
static volatile size_t root_size;
static long counts[KINDS], calls, kill_at, armed_nth;
static int armed_kind = -1, armed_error, armed_for_ever;
static int recording, lies, copies, journal = -1;

static struct { char *address; size_t size; Path path; } mappings[4096];

/* ---- control ---- */

void faults_disarm(void)
{
    pthread_mutex_lock(&mutex);
    armed_kind = -1;
    pthread_mutex_unlock(&mutex);
}

/* Look at paths under this directory from now on ("": at none), and count anew. */
void faults_watch(const char *directory)
{
    pthread_mutex_lock(&mutex);
    root_size = 0;
    snprintf(root, sizeof root, "%s", directory);
    memset(counts, 0, sizeof counts);
    calls = kill_at = 0;
    armed_kind = -1;
    root_size = strlen(root);
    pthread_mutex_unlock(&mutex);
}

/* Fail the n-th call of a kind from now on, and if for_ever all that follow it. */
void faults_arm(int kind, long nth, int error, int for_ever)
{
    pthread_mutex_lock(&mutex);
    memset(counts, 0, sizeof counts);
    fired[0] = 0;
    armed_kind = kind, armed_nth = nth, armed_error = error, armed_for_ever = for_ever;
    pthread_mutex_unlock(&mutex);
}

long faults_count(int kind) { return counts[kind]; }

/* How many calls of all kinds there were since faults_watch(). */
long faults_calls(void) { return calls; }

/* The last call that was failed, as "fsync /path", "" if none was; "sync of zeros: /path" where nothing can be lost. */
const char *faults_fired(void) { return fired; }

/* Kill this process before the n-th call of any kind since faults_watch(). */
void faults_kill_at(long nth) { kill_at = nth; }

/* Keep a journal in a directory, which must be there. what_lies: the syncs that succeed and are not in the journal. */
void faults_record(const char *directory, int what_lies)
{
    Path name;
    pthread_mutex_lock(&mutex);
    snprintf(shadow, sizeof shadow, "%s", directory);
    snprintf(name, sizeof name, "%.4000s/journal", directory);
    journal = syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    lies = what_lies;
    recording = journal >= 0;
    pthread_mutex_unlock(&mutex);
}

/* ---- paths ---- */

static int is_watched(const char *path)
{
    return root_size && !strncmp(path, root, root_size) && (!path[root_size] || path[root_size] == '/');
}

/* Whether the descriptor is of something watched, whose path is given. */
static int path_of_fd(int fd, Path path)
{
    char name[40];
    if (!root_size || fd < 0)
        return 0;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(name, path, PATH_MAX);
    path[size < 0 ? 0 : size] = 0;
    return is_watched(path);
}

static int path_at(int directory, const char *name, Path path)
{
    if (!root_size)
        return 0;
    if (name[0] == '/') {
        snprintf(path, sizeof(Path), "%s", name);
        return is_watched(path);
    }
    Path base;
    if (directory != AT_FDCWD)
        path_of_fd(directory, base);
    else if (syscall(SYS_getcwd, base, sizeof base) < 0)
        return 0;
    if (snprintf(path, sizeof(Path), "%.2000s/%.2000s", base, name) < 0)
        return 0;
    return is_watched(path);
}

/* Count a call; whether it is the one to fail, with errno set. May not return. */
static int fails(int kind, const char *call, const char *path)
{
    pthread_mutex_lock(&mutex);
    if (++calls == kill_at)
        syscall(SYS_kill, getpid(), SIGKILL);
    long n = ++counts[kind];
    int hit = kind == armed_kind && (n == armed_nth || (armed_for_ever && n > armed_nth));
    if (hit) {
        snprintf(fired, sizeof fired, "%s %.4000s", call, path);
        errno = armed_error;
    }
    pthread_mutex_unlock(&mutex);
    return hit;
}

/* ---- journal; called with the mutex held ---- */

static int exists(const char *path)
{
    struct stat about;
    return !lstat(path, &about);
}

/* Copy a file's bytes to a new file of the shadow directory and give that one's number. */
static int copy_of(const char *path)
{
    static char buffer[1 << 16];
    Path name;
    int number = ++copies;
    snprintf(name, sizeof name, "%.4000s/%d", shadow, number);
    int from = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    int to = syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ssize_t size;
    while ((size = syscall(SYS_read, from, buffer, sizeof buffer)) > 0)
        syscall(SYS_write, to, buffer, size);
    syscall(SYS_close, from);
    syscall(SYS_close, to);
    return number;
}

static void write_event(const char *format, ...)
{
    char line[3 * PATH_MAX];
    int saved = errno;
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    syscall(SYS_write, journal, line, size);
    errno = saved;
}

/* ---- syncs ---- */

static int sync_path(const char *path)
{
    struct stat about;
    if (lstat(path, &about)) /* of a file that was deleted nothing is left to keep */
        return 0;
    int is_directory = S_ISDIR(about.st_mode);
    if (lies & (is_directory ? DIRECTORY_SYNCS_LIE : FILE_SYNCS_LIE))
        return 0;
    pthread_mutex_lock(&mutex);
    if (is_directory)
        write_event("dirsync\t%s\n", path);
    else
        write_event("sync\t%s\t%d\n", path, copy_of(path));
    pthread_mutex_unlock(&mutex);
    return 0;
}

static int is_all_zeros(int fd)
{
    char buffer[4096];
    ssize_t size;
    for (off_t at = 0; (size = syscall(SYS_pread64, fd, buffer, sizeof buffer, at)) > 0; at += size)
        if (buffer[0] || memcmp(buffer, buffer + 1, size - 1))
            return 0;
    return !size;
}

static int sync_fd(int fd, const char *call, long number)
{
    Path path;
    if (!path_of_fd(fd, path))
        return syscall(number, fd);
    if (fails(SYNC, armed_kind == SYNC && is_all_zeros(fd) ? "sync of zeros:" : call, path))
        return -1;
    return recording ? sync_path(path) : syscall(number, fd);
}

int fsync(int fd) { return sync_fd(fd, "fsync", SYS_fsync); }
int fdatasync(int fd) { return sync_fd(fd, "fdatasync", SYS_fdatasync); }

int msync(void *address, size_t size, int flags)
{
    Path path = "";
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < sizeof mappings / sizeof *mappings && !path[0]; i++)
        if ((char *)address >= mappings[i].address && (char *)address < mappings[i].address + mappings[i].size)
            memcpy(path, mappings[i].path, sizeof path);
    pthread_mutex_unlock(&mutex);
    if (!is_watched(path))
        return syscall(SYS_msync, address, size, flags);
    if (fails(SYNC, "msync", path))
        return -1;
    return recording && flags & MS_SYNC ? sync_path(path) : syscall(SYS_msync, address, size, flags);
}

/* ---- mappings ---- */

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    Path path;
    int watched = !(flags & MAP_ANONYMOUS) && path_of_fd(fd, path);
    if (watched && fails(MMAP, "mmap", path))
        return MAP_FAILED;
    void *mapping = (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
    if (!watched || mapping == MAP_FAILED)
        return mapping;
    pthread_mutex_lock(&mutex);
    size_t i = 0;
    while (mappings[i].address && i < sizeof mappings / sizeof *mappings - 1)
        i++;
    mappings[i].address = mapping, mappings[i].size = size;
    memcpy(mappings[i].path, path, sizeof path);
    pthread_mutex_unlock(&mutex);
    return mapping;
}

int munmap(void *address, size_t size)
{
    if (root_size) {
        pthread_mutex_lock(&mutex);
        for (size_t i = 0; i < sizeof mappings / sizeof *mappings; i++)
            if (mappings[i].address == (char *)address)
                mappings[i].address = NULL, mappings[i].size = 0;
        pthread_mutex_unlock(&mutex);
    }
    return syscall(SYS_munmap, address, size);
}

/* ---- writes ---- */

/* How many bytes to pass on, -1 for none: the call fails. */
static ssize_t size_to_write(int fd, const char *call, size_t size)
{
    Path path;
    if (!path_of_fd(fd, path) || !fails(WRITE, call, path))
        return size;
    return armed_error == SHORT ? (ssize_t)(size + 1) / 2 : -1;
}

ssize_t write(int fd, const void *data, size_t size)
{
    ssize_t passed = size_to_write(fd, "write", size);
    return passed < 0 ? -1 : syscall(SYS_write, fd, data, passed);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    ssize_t passed = size_to_write(fd, "pwrite", size);
    return passed < 0 ? -1 : syscall(SYS_pwrite64, fd, data, passed, offset);
}

ssize_t writev(int fd, const struct iovec *parts, int n)
{
    return size_to_write(fd, "writev", 1) < 0 ? -1 : syscall(SYS_writev, fd, parts, n);
}

ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t offset)
{
    return size_to_write(fd, "pwritev", 1) < 0 ? -1 : syscall(SYS_pwritev, fd, parts, n, offset, 0);
}

/* ---- allocation ---- */

static int allocation_fails(int fd, const char *call)
{
    Path path;
    return path_of_fd(fd, path) && fails(ALLOCATE, call, path);
}

int ftruncate(int fd, off_t size) { return allocation_fails(fd, "ftruncate") ? -1 : syscall(SYS_ftruncate, fd, size); }

int fallocate(int fd, int mode, off_t offset, off_t size)
{
    return allocation_fails(fd, "fallocate") ? -1 : syscall(SYS_fallocate, fd, mode, offset, size);
}

int posix_fallocate(int fd, off_t offset, off_t size)
{
    if (allocation_fails(fd, "posix_fallocate"))
        return armed_error;
    return syscall(SYS_fallocate, fd, 0, offset, size) ? errno : 0;
}

int truncate(const char *name, off_t size)
{
    Path path;
    return path_at(AT_FDCWD, name, path) && fails(ALLOCATE, "truncate", path) ? -1 : syscall(SYS_truncate, name, size);
}

/* ---- names ---- */

static int open_at(int directory, const char *name, int flags, va_list arguments)
{
    Path path;
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, int) : 0;
    if (!path_at(directory, name, path))
        return syscall(SYS_openat, directory, name, flags, mode);
    if (fails(OPEN, "open", path))
        return -1;
    pthread_mutex_lock(&mutex);
    int is_new = recording && flags & O_CREAT && !exists(path);
    int fd = syscall(SYS_openat, directory, name, flags, mode);
    if (is_new && fd >= 0)
        write_event("create\t%s\n", path);
    pthread_mutex_unlock(&mutex);
    return fd;
}

int open(const char *name, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    int fd = open_at(AT_FDCWD, name, flags, arguments);
    va_end(arguments);
    return fd;
}

int openat(int directory, const char *name, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    int fd = open_at(directory, name, flags, arguments);
    va_end(arguments);
    return fd;
}

int mkdirat(int directory, const char *name, mode_t mode)
{
    Path path;
    if (!path_at(directory, name, path))
        return syscall(SYS_mkdirat, directory, name, mode);
    if (fails(OPEN, "mkdir", path))
        return -1;
    pthread_mutex_lock(&mutex);
    int result = syscall(SYS_mkdirat, directory, name, mode);
    if (recording && !result)
        write_event("mkdir\t%s\n", path);
    pthread_mutex_unlock(&mutex);
    return result;
}

int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

int unlinkat(int directory, const char *name, int flags)
{
    Path path;
    if (!path_at(directory, name, path))
        return syscall(SYS_unlinkat, directory, name, flags);
    if (fails(RENAME, "unlink", path))
        return -1;
    pthread_mutex_lock(&mutex);
    int is_file = !(flags & AT_REMOVEDIR);
    int copy = recording && is_file && exists(path) ? copy_of(path) : 0;
    int result = syscall(SYS_unlinkat, directory, name, flags);
    if (recording && !result && is_file)
        write_event("unlink\t%s\t%d\n", path, copy);
    else if (recording && !result)
        write_event("rmdir\t%s\n", path);
    pthread_mutex_unlock(&mutex);
    return result;
}

int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }

int renameat(int from_directory, const char *from_name, int to_directory, const char *to_name)
{
    Path from, to;
    path_at(from_directory, from_name, from);
    if (!path_at(to_directory, to_name, to))
        return syscall(SYS_renameat2, from_directory, from_name, to_directory, to_name, 0);
    if (fails(RENAME, "rename", to))
        return -1;
    pthread_mutex_lock(&mutex);
    int copy = recording && exists(to) ? copy_of(to) : 0;
    int result = syscall(SYS_renameat2, from_directory, from_name, to_directory, to_name, 0);
    if (recording && !result)
        write_event("rename\t%s\t%s\t%d\n", from, to, copy);
    pthread_mutex_unlock(&mutex);
    return result;
}

int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }

/* ---- the same by the names that programs built for large files call ---- */

#ifdef __GLIBC__
void *mmap64(void *, size_t, int, int, int, off_t) __attribute__((alias("mmap")));
ssize_t pwrite64(int, const void *, size_t, off_t) __attribute__((alias("pwrite")));
ssize_t pwritev64(int, const struct iovec *, int, off_t) __attribute__((alias("pwritev")));
int ftruncate64(int, off_t) __attribute__((alias("ftruncate")));
int truncate64(const char *, off_t) __attribute__((alias("truncate")));
int fallocate64(int, int, off_t, off_t) __attribute__((alias("fallocate")));
int posix_fallocate64(int, off_t, off_t) __attribute__((alias("posix_fallocate")));
int open64(const char *, int, ...) __attribute__((alias("open")));
int openat64(int, const char *, int, ...) __attribute__((alias("openat")));
#endif
