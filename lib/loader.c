/*
 * loader.c - where backends are searched, in which order.
 *
 * In come the caller's directory and names and the environment; out goes context->backends: one
 * entry per candidate, usable or with the reason in words (candidate.c). Nothing but lack of host
 * memory fails here: a machine without a driver, or with a broken plugin, still has its other
 * backends. The current directory is never searched, and no plugin is ever unloaded.
 */
#include "candidate.h"

#include "builtin.h"

#include <stdio.h>
#include <string.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

/* Beside the installed core; and the folder that Meson keeps beside a core that is not installed.
 */
#define PLUGIN_FOLDER "diffdispatch-" TEXT(DDISP_BACKEND_ABI_MAJOR)
#define BUILD_MARK                                                                                 \
    "libdiffdispatch.so." TEXT(DDISP_VERSION_MAJOR) "." TEXT(DDISP_VERSION_MINOR) "." TEXT(        \
        DDISP_VERSION_PATCH) ".p"

static void try_directory(struct ddisp__search *search, const char *directory, const char *source)
{
    search->directory = directory;
    bool readable = ddisp__directory_list(directory, ddisp__candidate_file, search);
    ddisp__context_log(search->context, DDISP_LOG_LEVEL_INFO, "backends searched in %s (%s)%s",
                       directory, source, readable ? "" : ": no such directory");
}

static void try_environment(struct ddisp__search *search)
{
    const char *list = ddisp__environment("DDISP_BACKEND_PATH");
    while (list && list[0]) {
        char directory[DDISP__PATH_CAPACITY];
        size_t length = strcspn(list, ":");
        const char *start = list;
        list += length + (list[length] == ':');
        if (length == 0 || length >= sizeof directory)
            continue;
        memcpy(directory, start, length);
        directory[length] = '\0';
        if (directory[0] == '/') {
            try_directory(search, directory, "DDISP_BACKEND_PATH");
            continue;
        }
        ddisp__backend *backend = ddisp__candidate_add(search, "", 0, directory);
        if (backend)
            ddisp__candidate_refuse(
                search, backend, DDISP_LOG_LEVEL_WARNING, DDISP_STATUS_INVALID_ARGUMENT,
                "DDISP_BACKEND_PATH: '%.300s' is not an absolute directory, so it was not "
                "searched",
                directory);
    }
}

static void try_builtin(struct ddisp__search *search)
{
#ifdef DDISP_BUILTIN_BACKENDS
    for (const ddisp__builtin_backend *builtin = ddisp__builtin_backends; builtin->name;
         builtin++) {
        ddisp__backend *backend = ddisp__candidate_consider(search, builtin->name, "built in");
        if (backend)
            ddisp__candidate_open(search, backend, builtin->query);
    }
#else
    (void)search;
#endif
}

static void ignore_name(void *user, const char *name)
{
    (void)user;
    (void)name;
}

/* A core that lies in its build folder takes the plugins built with it, not installed ones. */
static void try_installed(struct ddisp__search *search)
{
    char core[DDISP__PATH_CAPACITY], path[DDISP__PATH_CAPACITY + 64];
    bool known = ddisp__library_directory(core, sizeof core);
    if (known) {
        snprintf(path, sizeof path, "%s/%s", core, BUILD_MARK);
        char *slash = strrchr(core, '/');
        if (slash && slash != core && ddisp__directory_list(path, ignore_name, NULL)) {
            snprintf(path, sizeof path, "%.*s/backends", (int)(slash - core), core);
            try_directory(search, path, "build tree");
        }
    }
    try_directory(search, DDISP_PLUGIN_DIR, "plugin directory");
    if (!known)
        return;
    snprintf(path, sizeof path, "%s/%s", core, PLUGIN_FOLDER);
    if (strcmp(path, DDISP_PLUGIN_DIR) != 0)
        try_directory(search, path, "beside the library");
}

/* A name that was asked for and found nowhere is a candidate too, so that a typing error shows. */
static void note_absent(struct ddisp__search *search)
{
    const char *cursor = search->wanted, *wanted;
    uint64_t length;
    while (cursor && ddisp__candidate_next_name(&cursor, &wanted, &length)) {
        bool found = false;
        for (uint32_t i = 0; i < search->context->backends.count && !found; i++) {
            const ddisp__backend *other = ddisp__array_at(&search->context->backends, i);
            found = strlen(other->info.name) == length && !memcmp(other->info.name, wanted, length);
        }
        ddisp__backend *backend = found ? NULL : ddisp__candidate_add(search, wanted, length, "");
        if (backend)
            ddisp__candidate_refuse(search, backend, DDISP_LOG_LEVEL_WARNING,
                                    DDISP_STATUS_NOT_FOUND,
                                    "%s asks for it, but no directory searched has a ddisp-%s.so",
                                    search->wanted_source, backend->info.name);
    }
}

ddisp_status ddisp__loader_run(ddisp_context *context, const char *backend_path,
                               const char *backends)
{
    struct ddisp__search search = {
        .context = context, .wanted = backends, .wanted_source = "desc.backends"};
    if (!backends) {
        search.wanted = ddisp__environment("DDISP_BACKENDS");
        search.wanted_source = "DDISP_BACKENDS";
    }
    ddisp_error before = *ddisp__error();
    if (backend_path)
        try_directory(&search, backend_path, "desc.backend_path");
    try_environment(&search);
    try_builtin(&search);
    try_installed(&search);
    note_absent(&search);
    ddisp__error_restore(&before);
    if (search.out_of_memory)
        return ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no host memory for the list of backends");
    return DDISP_STATUS_OK;
}

void ddisp__loader_close(ddisp_context *context)
{
    for (uint32_t i = context->backends.count; i-- > 0;) {
        ddisp__backend *backend = ddisp__array_at(&context->backends, i);
        if (backend->instance)
            backend->table->close(backend->instance);
        backend->instance = NULL;
    }
}

const ddisp_backend_table *ddisp__loader_table(ddisp_context *context, const char *name)
{
    const ddisp__backend *backend = ddisp__candidate_loaded(context, name);
    return backend ? backend->table : NULL;
}
