/*
 * platform.h - what the core asks of the operating system: shared objects, directories,
 * environment, files, time, fork. One implementation per system (platform_posix.c,
 * platform_posix_file.c); nothing else in the core includes a system header.
 */
#ifndef DDISP_LIB_PLATFORM_H
#define DDISP_LIB_PLATFORM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Opens a shared object for good (RTLD_NOW, LOCAL, NODELETE). NULL on failure, with the reason in
 * message. */
void *ddisp__library_open(const char *path, char *message, size_t capacity);
/** Address of a symbol, or NULL. */
void *ddisp__library_symbol(void *library, const char *name);
/** Directory of the shared object that holds the core, without a trailing slash. False when
 * unknown. */
bool ddisp__library_directory(char *path, size_t capacity);

/** Environment variable, or NULL when unset, empty, or the process runs with raised privileges. */
const char *ddisp__environment(const char *name);

/** Calls visit(user, file name) for each regular file or link in a directory, sorted by name. False
 * when unreadable. */
bool ddisp__directory_list(const char *path, void (*visit)(void *user, const char *name),
                           void *user);
bool ddisp__file_exists(const char *path);

/* Files of a directory that several processes use at once. Where an int is returned it is 0, or the
 * system's code of what failed. Nothing here waits for another process. */

struct ddisp__bytes;

/** What a code says, in words. */
void ddisp__file_reason(int code, char *text, size_t capacity);
/** The code says that there is no such file or directory. */
bool ddisp__file_absent(int code);
/** Makes a directory and those above it, for this user alone; 0 when it is there already. */
int ddisp__directory_make(const char *path);
/** 0 when nobody but this user (and root) can put files into the directory. */
int ddisp__directory_private(const char *path);
/** Appends a regular file to out and notes that it was used now. Larger ones than most_bytes fail.
 */
int ddisp__file_load(const char *directory, const char *name, uint64_t most_bytes,
                     struct ddisp__bytes *out);

typedef struct ddisp__file_part {
    const void *bytes;
    uint64_t size_bytes;
} ddisp__file_part;

/** Writes a file, or replaces it, in one step: whoever looks sees all of it or what was before. */
int ddisp__file_store(const char *directory, const char *name, const ddisp__file_part *parts,
                      uint32_t count);
/** Removes a file that file_store left unfinished, if name is that of one and its writer is gone.
 */
void ddisp__file_sweep(const char *directory, const char *name);
/** Size and time of the last use. */
bool ddisp__file_figures(const char *directory, const char *name, uint64_t *out_size_bytes,
                         uint64_t *out_used_ns);
void ddisp__file_remove(const char *directory, const char *name);

/** Monotonic time in nanoseconds. */
uint64_t ddisp__time_ns(void);

/** Starts a thread that takes no signal of the program's but those that its own code raises. */
bool ddisp__thread_start(pthread_t *out_thread, const char *name, void *(*function)(void *user),
                         void *user);

/** Number of forks that this process descends by since the library was first used; 0 in the first
 * process. */
uint32_t ddisp__fork_generation(void);
/** Installs the fork handler, once. */
void ddisp__fork_watch(void);

#endif
