/*
 * platform_posix_file.c - files that several processes read, replace and remove at once. A file is
 * written under a name of its own and renamed; its writer holds a lock on it that dies with the
 * process, by which others tell an abandoned file from one that is being written. Locks are tried
 * and never waited for. Special files in the place of regular ones are neither waited for nor
 * followed.
 */
#define _GNU_SOURCE /* strerror_r */

#include "bytes.h"
#include "platform.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Names of files that are being written begin so. */
#define UNFINISHED "unfinished-"

void ddisp__file_reason(int code, char *text, size_t capacity)
{
    char buffer[128];
    (void)snprintf(text, capacity, "%s", strerror_r(code, buffer, sizeof buffer));
}

bool ddisp__file_absent(int code)
{
    return code == ENOENT;
}

static bool join(char path[PATH_MAX], const char *directory, const char *name)
{
    return (size_t)snprintf(path, PATH_MAX, "%s/%s", directory, name) < PATH_MAX;
}

/* ---- directories ---- */

int ddisp__directory_make(const char *path)
{
    char part[PATH_MAX];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof part)
        return length ? ENAMETOOLONG : ENOENT;
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        /* What is there already may be of a kind or a place that mkdir refuses otherwise. */
        if (mkdir(part, 0700) != 0 && errno != EEXIST && access(part, F_OK) != 0)
            return errno;
    }
    struct stat status;
    if (stat(path, &status) != 0)
        return errno;
    return S_ISDIR(status.st_mode) ? 0 : ENOTDIR;
}

int ddisp__directory_private(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return errno;
    bool ours = status.st_uid == geteuid() || status.st_uid == 0;
    return ours && !(status.st_mode & S_IWOTH) ? 0 : EPERM;
}

/* ---- reading ---- */

static int read_all(int file, uint64_t size_bytes, ddisp__bytes *out)
{
    char buffer[16384];
    while (size_bytes) {
        size_t wanted = size_bytes < sizeof buffer ? (size_t)size_bytes : sizeof buffer;
        ssize_t got = read(file, buffer, wanted);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? errno : EIO; /* it became shorter meanwhile */
        ddisp__bytes_put(out, buffer, (uint64_t)got);
        size_bytes -= (uint64_t)got;
    }
    return out->failed ? ENOMEM : 0;
}

int ddisp__file_load(const char *directory, const char *name, uint64_t most_bytes,
                     struct ddisp__bytes *out)
{
    char path[PATH_MAX];
    if (!join(path, directory, name))
        return ENAMETOOLONG;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0)
        return errno;
    struct stat status;
    int code = fstat(file, &status) == 0 ? 0 : errno;
    if (!code && !S_ISREG(status.st_mode))
        code = EINVAL;
    if (!code && (uint64_t)status.st_size > most_bytes)
        code = EFBIG;
    if (!code)
        code = read_all(file, (uint64_t)status.st_size, out);
    if (!code) {
        const struct timespec used[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
        (void)futimens(file, used);
    }
    (void)close(file);
    return code;
}

/* ---- writing ---- */

/* A new file of its own name, locked. -1 with errno. */
static int create_unfinished(const char *directory, char path[PATH_MAX])
{
    static atomic_uint_fast32_t serial;
    for (int tries = 0; tries < 16; tries++) {
        char name[96];
        struct timespec now;
        (void)clock_gettime(CLOCK_REALTIME, &now);
        (void)snprintf(name, sizeof name, UNFINISHED "%ld-%lx%08lx-%lx", (long)getpid(),
                       (unsigned long)now.tv_sec, (unsigned long)now.tv_nsec,
                       (unsigned long)atomic_fetch_add(&serial, 1));
        if (!join(path, directory, name)) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file < 0 && errno != EEXIST)
            return -1;
        /* Where files cannot be locked, none is swept either. */
        if (file >= 0 && (flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK))
            return file;
        if (file >= 0) { /* somebody sweeps it already */
            (void)unlink(path);
            (void)close(file);
        }
    }
    errno = EAGAIN;
    return -1;
}

static int write_all(int file, const void *bytes, uint64_t size_bytes)
{
    const char *at = bytes;
    while (size_bytes) {
        ssize_t put = write(file, at, size_bytes);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? errno : ENOSPC;
        at += put;
        size_bytes -= (uint64_t)put;
    }
    return 0;
}

/* Renames over whatever is there; an empty directory in the place goes away first. */
static int rename_over(const char *from, const char *to)
{
    if (rename(from, to) == 0)
        return 0;
    int code = errno;
    if (code != EISDIR && code != ENOTEMPTY && code != EEXIST)
        return code;
    return rmdir(to) == 0 && rename(from, to) == 0 ? 0 : code;
}

static int store_once(const char *directory, const char *to, const ddisp__file_part *parts,
                      uint32_t count)
{
    char path[PATH_MAX];
    int file = create_unfinished(directory, path);
    if (file < 0)
        return errno;
    int code = 0;
    for (uint32_t i = 0; i < count && !code; i++)
        code = write_all(file, parts[i].bytes, parts[i].size_bytes);
    if (!code)
        code = rename_over(path, to);
    if (code)
        (void)unlink(path);
    if (close(file) != 0 && !code && errno != EINTR)
        code = errno;
    return code;
}

int ddisp__file_store(const char *directory, const char *name, const ddisp__file_part *parts,
                      uint32_t count)
{
    char to[PATH_MAX];
    if (!join(to, directory, name))
        return ENAMETOOLONG;
    int code = store_once(directory, to, parts, count);
    /* An unfinished file may be swept in the moment between its making and its locking. */
    return code == ENOENT ? store_once(directory, to, parts, count) : code;
}

void ddisp__file_sweep(const char *directory, const char *name)
{
    char path[PATH_MAX];
    if (strncmp(name, UNFINISHED, strlen(UNFINISHED)) != 0 || !join(path, directory, name))
        return;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0)
        return;
    if (flock(file, LOCK_EX | LOCK_NB) == 0)
        (void)unlink(path);
    (void)close(file);
}

bool ddisp__file_figures(const char *directory, const char *name, uint64_t *out_size_bytes,
                         uint64_t *out_used_ns)
{
    char path[PATH_MAX];
    struct stat status;
    if (!join(path, directory, name) || lstat(path, &status) != 0 || !S_ISREG(status.st_mode))
        return false;
    *out_size_bytes = (uint64_t)status.st_size;
    *out_used_ns =
        (uint64_t)status.st_mtim.tv_sec * UINT64_C(1000000000) + (uint64_t)status.st_mtim.tv_nsec;
    return true;
}

void ddisp__file_remove(const char *directory, const char *name)
{
    char path[PATH_MAX];
    if (join(path, directory, name))
        (void)unlink(path);
}
