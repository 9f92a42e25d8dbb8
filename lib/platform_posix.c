/*
 * platform_posix.c - platform.h for Linux and other systems with POSIX: shared objects,
 * directories, environment, time, fork.
 *
 * Paths come in absolute and are used as they are; nothing here looks into the current directory
 * or installs anything at load time. The fork handler is installed by the first context.
 */
#define _GNU_SOURCE /* dladdr, secure_getenv */

#include "platform.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* An address inside the core's shared object. */
static const char anchor = 0;

/* Bytes that the segments of a shared object need of its file; 0 for files that dlopen itself
 * refuses. */
static uint64_t needed_bytes(FILE *file)
{
    ElfW(Ehdr) header;
    if (fread(&header, sizeof header, 1, file) != 1 ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof(ElfW(Phdr)) ||
        fseek(file, (long)header.e_phoff, SEEK_SET) != 0)
        return 0;

    uint64_t needed = header.e_phoff + (uint64_t)header.e_phnum * sizeof(ElfW(Phdr));
    for (uint32_t i = 0; i < header.e_phnum; i++) {
        ElfW(Phdr) segment;
        if (fread(&segment, sizeof segment, 1, file) != 1)
            return needed;
        if (segment.p_type == PT_LOAD && segment.p_offset + segment.p_filesz > needed)
            needed = segment.p_offset + segment.p_filesz;
    }
    return needed;
}

/* dlopen maps a file that is cut off, as by an interrupted copy, and then dies of it. */
static bool is_whole(const char *path, char *message, size_t capacity)
{
    struct stat status;
    FILE *file = fopen(path, "rbe");
    if (!file || fstat(fileno(file), &status) != 0) {
        snprintf(message, capacity, "%s: %s", path, strerror(errno));
        if (file)
            fclose(file);
        return false;
    }
    uint64_t needed = needed_bytes(file);
    fclose(file);
    if (needed <= (uint64_t)status.st_size)
        return true;
    snprintf(message, capacity,
             "%s is cut off: it has %llu bytes, its segments need %llu; install it again", path,
             (unsigned long long)status.st_size, (unsigned long long)needed);
    return false;
}

void *ddisp__library_open(const char *path, char *message, size_t capacity)
{
    if (!is_whole(path, message, capacity))
        return NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        const char *reason = dlerror();
        snprintf(message, capacity, "%s", reason ? reason : "dlopen failed without a reason");
    }
    return library;
}

void *ddisp__library_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}

/* The loader may know the core by a relative path, which means nothing after a chdir; the kernel's
 * list of mappings has the file that is really mapped. */
static bool mapped_file(const void *address, char *path, size_t capacity)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return false;

    bool found = false;
    char line[PATH_MAX + 128];
    while (!found && fgets(line, sizeof line, maps)) {
        char *cursor = line;
        unsigned long long low = strtoull(cursor, &cursor, 16);
        unsigned long long high = *cursor == '-' ? strtoull(cursor + 1, &cursor, 16) : 0;
        if ((uintptr_t)address < low || (uintptr_t)address >= high)
            continue;
        char *start = strchr(cursor, '/');
        if (!start)
            break;
        start[strcspn(start, "\n")] = '\0';
        found = (size_t)snprintf(path, capacity, "%s", start) < capacity;
    }
    fclose(maps);
    return found;
}

bool ddisp__library_directory(char *path, size_t capacity)
{
    Dl_info info;
    char file[PATH_MAX], resolved[PATH_MAX];
    if (dladdr(&anchor, &info) && info.dli_fname && info.dli_fname[0] == '/') {
        if ((size_t)snprintf(file, sizeof file, "%s", info.dli_fname) >= sizeof file)
            return false;
    } else if (!mapped_file(&anchor, file, sizeof file)) {
        return false;
    }
    if (!realpath(file, resolved))
        return false;

    char *slash = strrchr(resolved, '/');
    size_t length = slash ? (size_t)(slash - resolved) : 0;
    if (length == 0 || length >= capacity)
        return false;
    memcpy(path, resolved, length);
    path[length] = '\0';
    return true;
}

const char *ddisp__environment(const char *name)
{
    const char *value = secure_getenv(name);
    return value && value[0] ? value : NULL;
}

/* Some file systems do not tell the type; the loader looks at the file itself in any case. */
static int is_file(const struct dirent *entry)
{
    return entry->d_type == DT_REG || entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN;
}

/* Byte order, not alphasort's: that depends on the locale. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

bool ddisp__directory_list(const char *path, void (*visit)(void *user, const char *name),
                           void *user)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, is_file, by_name);
    if (count < 0)
        return false;
    for (int i = 0; i < count; i++) {
        visit(user, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return true;
}

bool ddisp__file_exists(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

uint64_t ddisp__time_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static atomic_uint_fast32_t generation;
static pthread_once_t watch_once = PTHREAD_ONCE_INIT;

static void in_child(void)
{
    atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
}

static void watch(void)
{
    (void)pthread_atfork(NULL, NULL, in_child);
}

uint32_t ddisp__fork_generation(void)
{
    return (uint32_t)atomic_load_explicit(&generation, memory_order_relaxed);
}

void ddisp__fork_watch(void)
{
    (void)pthread_once(&watch_once, watch);
}

/* ---- threads */

bool ddisp__thread_start(pthread_t *out_thread, const char *name, void *(*function)(void *user),
                         void *user)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    sigset_t blocked, before;
    (void)sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        (void)sigdelset(&blocked, own[i]);
    (void)pthread_sigmask(SIG_BLOCK, &blocked, &before);
    int code = pthread_create(out_thread, NULL, function, user);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code == 0)
        (void)pthread_setname_np(*out_thread, name);
    return code == 0;
}
