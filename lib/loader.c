/*
 * loader.c - finds backends, checks that they fit, and opens their drivers.
 *
 * In come the search path and the list of wanted names; out goes context->backends: one entry per
 * candidate, usable or with the reason in words. Nothing but lack of host memory fails here: a
 * machine without a driver, or with a broken plugin, still has its other backends. A file is only
 * opened when its name and type fit, since opening already runs its code. The current directory is
 * never searched, and no plugin is ever unloaded.
 */
#include "objects.h"

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

/* So that "name:4294967295" fits in the spec of a device. */
#define LONGEST_NAME 20u

#define LONGEST_PATH 4096

struct search {
    ddisp_context *context;
    const char *wanted;        /* comma-separated names, NULL for all */
    const char *wanted_source; /* who said so */
    const char *directory;
    bool out_of_memory;
};

/* ---- candidates */

/* Copies text, cut and terminated. */
static void copy_text(char *to, size_t capacity, const char *from, size_t length)
{
    if (length >= capacity)
        length = capacity - 1;
    memcpy(to, from, length);
    to[length] = '\0';
}

static ddisp__backend *add_candidate(struct search *search, const char *name, uint64_t name_length,
                                     const char *path)
{
    ddisp__backend *backend = ddisp__array_push(search->context, &search->context->backends);
    if (!backend) {
        search->out_of_memory = true;
        return NULL;
    }
    backend->info.size = sizeof backend->info;
    copy_text(backend->info.name, sizeof backend->info.name, name, name_length);
    copy_text(backend->info.path, sizeof backend->info.path, path, strlen(path));
    return backend;
}

static void refuse(struct search *search, ddisp__backend *backend, ddisp_log_level level,
                   ddisp_status status, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
static void refuse(struct search *search, ddisp__backend *backend, ddisp_log_level level,
                   ddisp_status status, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    (void)vsnprintf(backend->info.reason, sizeof backend->info.reason, format, values);
    va_end(values);
    backend->info.status = status;
    ddisp__context_log(search->context, level, "backend %s (%s) is not used: %s",
                       backend->info.name, backend->info.path, backend->info.reason);
}

static bool name_is_valid(const char *name, uint64_t length)
{
    if (length == 0 || length > LONGEST_NAME)
        return false;
    for (uint64_t i = 0; i < length; i++) {
        char c = name[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_')
            return false;
    }
    return true;
}

/* Next name of a comma-separated list, without blanks around it. False at the end. */
static bool next_name(const char **cursor, const char **out_name, uint64_t *out_length)
{
    const char *at = *cursor;
    at += strspn(at, ", ");
    uint64_t length = strcspn(at, ",");
    *cursor = at + length;
    while (length > 0 && at[length - 1] == ' ')
        length--;
    *out_name = at;
    *out_length = length;
    return length != 0;
}

static bool is_wanted(const struct search *search, const char *name)
{
    if (!search->wanted)
        return true;
    const char *cursor = search->wanted, *wanted;
    uint64_t length;
    while (next_name(&cursor, &wanted, &length)) {
        if (length == strlen(name) && !memcmp(name, wanted, length))
            return true;
    }
    return false;
}

/* The candidate of this name whose table is in use; NULL when there is none. */
static const ddisp__backend *find_loaded(ddisp_context *context, const char *name)
{
    for (uint32_t i = 0; i < context->backends.count; i++) {
        const ddisp__backend *backend = ddisp__array_at(&context->backends, i);
        if (backend->table && !strcmp(backend->info.name, name))
            return backend;
    }
    return NULL;
}

/* ---- handshake */

/* Names of the functions behind the head of the table, to say which one is missing. */
static const char *const function_names[] = {"open",
                                             "close",
                                             "device_count",
                                             "device_describe",
                                             "device_open",
                                             "device_close",
                                             "memory_allocate",
                                             "memory_free",
                                             "memory_import",
                                             "memory_release_import",
                                             "upload",
                                             "download",
                                             "fill",
                                             "copy",
                                             "stream_create",
                                             "stream_destroy",
                                             "stream_flush",
                                             "stream_mark",
                                             "stream_wait",
                                             "stream_query",
                                             "stream_synchronize",
                                             "inspect",
                                             "code_fits",
                                             "variant_build",
                                             "variant_release",
                                             "launch"};

#define FUNCTION_COUNT (sizeof function_names / sizeof function_names[0])

_Static_assert(DDISP_BACKEND_TABLE_SIZE_0_1 ==
                   offsetof(ddisp_backend_table, open) + FUNCTION_COUNT * sizeof(void *),
               "every function of the first table is named");

static const char *missing_function(const ddisp_backend_table *table)
{
    for (size_t i = 0; i < FUNCTION_COUNT; i++) {
        void *function;
        memcpy(&function,
               (const unsigned char *)table + offsetof(ddisp_backend_table, open) +
                   i * sizeof function,
               sizeof function);
        if (!function)
            return function_names[i];
    }
    return NULL;
}

/* Whether the core can use the table; else says why not. size and abi are read first: they are the
 * only fields that every version of the table has. */
static bool check_table(struct search *search, ddisp__backend *backend,
                        const ddisp_backend_table *table)
{
    if (!table || table->size < 2 * sizeof(uint32_t)) {
        refuse(search, backend, DDISP_LOG_LEVEL_WARNING, DDISP_STATUS_INCOMPATIBLE,
               "%s gave no table", backend->info.path);
        return false;
    }
    backend->info.abi_version = table->abi;
    uint32_t major = table->abi >> 16, minor = table->abi & 0xFFFFu;
    if (major != DDISP_BACKEND_ABI_MAJOR || minor > DDISP_BACKEND_ABI_MINOR) {
        refuse(search, backend, DDISP_LOG_LEVEL_WARNING, DDISP_STATUS_INCOMPATIBLE,
               "%s was built for plugin ABI %u.%u, library %s takes %u.0 to %u.%u; install plugin "
               "and library of one release",
               backend->info.path, major, minor, ddisp_version_string(), DDISP_BACKEND_ABI_MAJOR,
               DDISP_BACKEND_ABI_MAJOR, DDISP_BACKEND_ABI_MINOR);
        return false;
    }
    if (table->size < DDISP_BACKEND_TABLE_SIZE_0_1) {
        refuse(
            search, backend, DDISP_LOG_LEVEL_WARNING, DDISP_STATUS_INCOMPATIBLE,
            "%s: its table of plugin ABI %u.%u has %u bytes, library %s (plugin ABI %u.%u) needs "
            "%u or more",
            backend->info.path, major, minor, table->size, ddisp_version_string(),
            DDISP_BACKEND_ABI_MAJOR, DDISP_BACKEND_ABI_MINOR, DDISP_BACKEND_TABLE_SIZE_0_1);
        return false;
    }
    if (!table->name || strcmp(table->name, backend->info.name) != 0) {
        refuse(search, backend, DDISP_LOG_LEVEL_WARNING, DDISP_STATUS_INCOMPATIBLE,
               "%s calls itself '%s', but its file name says '%s'", backend->info.path,
               table->name ? table->name : "", backend->info.name);
        return false;
    }
    const char *missing = missing_function(table);
    if (missing) {
        refuse(search, backend, DDISP_LOG_LEVEL_WARNING, DDISP_STATUS_INCOMPATIBLE,
               "%s: function '%s' of its table is NULL", backend->info.path, missing);
        return false;
    }
    return true;
}

/* What the backend said through services->fail, or words of our own. */
static const char *reason_given(ddisp_status status)
{
    const ddisp_error *error = ddisp__error();
    return error->status == status && error->message[0] ? error->message
                                                        : ddisp_status_describe(status);
}

static void forget_error(void)
{
    static const ddisp_error none = {.size = sizeof(ddisp_error), .argument = -1};
    ddisp__error_restore(&none);
}

/* From the query function on, plugins and built-in backends are alike. */
static void open_backend(struct search *search, ddisp__backend *backend,
                         ddisp_backend_query_function query)
{
    const ddisp_backend_table *table = NULL;
    forget_error();
    ddisp_status status = query(DDISP_BACKEND_ABI, ddisp__services(), &table);
    if (status != DDISP_STATUS_OK) {
        refuse(search, backend, DDISP_LOG_LEVEL_WARNING, DDISP_STATUS_INCOMPATIBLE,
               "%s refused plugin ABI %u.%u of library %s: %s", backend->info.path,
               DDISP_BACKEND_ABI_MAJOR, DDISP_BACKEND_ABI_MINOR, ddisp_version_string(),
               reason_given(status));
        return;
    }
    if (!check_table(search, backend, table))
        return;
    backend->table = table;
    snprintf(backend->info.version, sizeof backend->info.version, "%s",
             table->version ? table->version : "");

    void *instance = NULL;
    forget_error();
    status = table->open(ddisp__services(), &instance);
    if (status != DDISP_STATUS_OK) {
        refuse(search, backend, DDISP_LOG_LEVEL_INFO, status, "%s", reason_given(status));
        return;
    }
    forget_error();
    status = table->device_count(instance, &backend->info.device_count);
    if (status != DDISP_STATUS_OK) {
        backend->info.device_count = 0;
        refuse(search, backend, DDISP_LOG_LEVEL_WARNING, status, "%s", reason_given(status));
        table->close(instance);
        return;
    }
    backend->instance = instance;
    ddisp__context_log(search->context, DDISP_LOG_LEVEL_INFO,
                       "backend %s %s loaded from %s: %u devices", backend->info.name,
                       backend->info.version, backend->info.path, backend->info.device_count);
}

/* Notes a candidate. NULL when it is not to be tried. */
static ddisp__backend *consider(struct search *search, const char *name, const char *path)
{
    const ddisp__backend *loaded = find_loaded(search->context, name);
    char loaded_path[sizeof loaded->info.path] = "";
    if (loaded)
        memcpy(loaded_path, loaded->info.path, sizeof loaded_path); /* entries move */

    ddisp__backend *backend = add_candidate(search, name, strlen(name), path);
    if (!backend)
        return NULL;
    if (loaded) {
        refuse(search, backend, DDISP_LOG_LEVEL_INFO, DDISP_STATUS_BACKEND_UNAVAILABLE,
               "not tried: %s was already loaded from %.400s", name, loaded_path);
        return NULL;
    }
    if (!is_wanted(search, name)) {
        refuse(search, backend, DDISP_LOG_LEVEL_DEBUG, DDISP_STATUS_BACKEND_UNAVAILABLE,
               "not tried: %s asks for '%.300s' only", search->wanted_source, search->wanted);
        return NULL;
    }
    return backend;
}

/* ---- places */

static void try_file(void *user, const char *file)
{
    struct search *search = user;
    static const char prefix[] = "ddisp-", suffix[] = ".so";
    size_t length = strlen(file), prefix_length = sizeof prefix - 1,
           suffix_length = sizeof suffix - 1;
    if (search->out_of_memory || length < prefix_length + suffix_length ||
        strncmp(file, prefix, prefix_length) != 0 ||
        strcmp(file + length - suffix_length, suffix) != 0)
        return;

    char path[LONGEST_PATH], name[LONGEST_NAME + 1], symbol[64], message[512];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", search->directory, file) >= sizeof path)
        return;
    const char *start = file + prefix_length;
    size_t name_length = length - prefix_length - suffix_length;
    if (!name_is_valid(start, name_length)) {
        ddisp__backend *backend = add_candidate(search, start, name_length, path);
        if (backend)
            refuse(search, backend, DDISP_LOG_LEVEL_WARNING, DDISP_STATUS_INVALID_ARGUMENT,
                   "names of backends are 1 to %u of a-z, 0-9 and _", LONGEST_NAME);
        return;
    }
    memcpy(name, start, name_length);
    name[name_length] = '\0';

    ddisp__backend *backend = consider(search, name, path);
    if (!backend)
        return;
    if (!ddisp__file_exists(path)) {
        refuse(search, backend, DDISP_LOG_LEVEL_WARNING, DDISP_STATUS_NOT_FOUND,
               "%s is neither a regular file nor a link to one", backend->info.path);
        return;
    }
    void *library = ddisp__library_open(path, message, sizeof message);
    if (!library) {
        refuse(search, backend, DDISP_LOG_LEVEL_WARNING, DDISP_STATUS_INCOMPATIBLE, "%s", message);
        return;
    }
    snprintf(symbol, sizeof symbol, "ddisp_%s_backend_query", name);
    void *address = ddisp__library_symbol(library, symbol);
    ddisp_backend_query_function query = NULL;
    memcpy(&query, &address, sizeof query);
    if (!query) {
        refuse(search, backend, DDISP_LOG_LEVEL_WARNING, DDISP_STATUS_INCOMPATIBLE,
               "%s does not export %s; is it a backend?", backend->info.path, symbol);
        return;
    }
    open_backend(search, backend, query);
}

static void try_directory(struct search *search, const char *directory, const char *source)
{
    search->directory = directory;
    bool readable = ddisp__directory_list(directory, try_file, search);
    ddisp__context_log(search->context, DDISP_LOG_LEVEL_INFO, "backends searched in %s (%s)%s",
                       directory, source, readable ? "" : ": no such directory");
}

static void try_environment(struct search *search)
{
    const char *list = ddisp__environment("DDISP_BACKEND_PATH");
    while (list && list[0]) {
        char directory[LONGEST_PATH];
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
        ddisp__backend *backend = add_candidate(search, "", 0, directory);
        if (backend)
            refuse(search, backend, DDISP_LOG_LEVEL_WARNING, DDISP_STATUS_INVALID_ARGUMENT,
                   "DDISP_BACKEND_PATH: '%.300s' is not an absolute directory, so it was not "
                   "searched",
                   directory);
    }
}

static void try_builtin(struct search *search)
{
#ifdef DDISP_BUILTIN_BACKENDS
    for (const ddisp__builtin_backend *builtin = ddisp__builtin_backends; builtin->name;
         builtin++) {
        ddisp__backend *backend = consider(search, builtin->name, "built in");
        if (backend)
            open_backend(search, backend, builtin->query);
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
static void try_installed(struct search *search)
{
    char core[LONGEST_PATH], path[LONGEST_PATH + 64];
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
static void note_absent(struct search *search)
{
    const char *cursor = search->wanted, *wanted;
    uint64_t length;
    while (cursor && next_name(&cursor, &wanted, &length)) {
        bool found = false;
        for (uint32_t i = 0; i < search->context->backends.count && !found; i++) {
            const ddisp__backend *other = ddisp__array_at(&search->context->backends, i);
            found = strlen(other->info.name) == length && !memcmp(other->info.name, wanted, length);
        }
        ddisp__backend *backend = found ? NULL : add_candidate(search, wanted, length, "");
        if (backend)
            refuse(search, backend, DDISP_LOG_LEVEL_WARNING, DDISP_STATUS_NOT_FOUND,
                   "%s asks for it, but no directory searched has a ddisp-%s.so",
                   search->wanted_source, backend->info.name);
    }
}

ddisp_status ddisp__loader_run(ddisp_context *context, const char *backend_path,
                               const char *backends)
{
    struct search search = {
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
    const ddisp__backend *backend = find_loaded(context, name);
    return backend ? backend->table : NULL;
}
