/*
 * platform.h - what the core asks of the operating system: shared objects, directories,
 * environment, time, fork. One implementation per system (platform_posix.c); nothing else in the
 * core includes a system header.
 */
#ifndef DDISP_LIB_PLATFORM_H
#define DDISP_LIB_PLATFORM_H

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

/** Monotonic time in nanoseconds. */
uint64_t ddisp__time_ns(void);

/** Number of forks that this process descends by since the library was first used; 0 in the first
 * process. */
uint32_t ddisp__fork_generation(void);
/** Installs the fork handler, once. */
void ddisp__fork_watch(void);

#endif
