/*
 * candidate.c - one candidate for a backend: whether it is tried, whether it fits, and its driver.
 *
 * In comes a file or a built-in query function, out goes an entry of context->backends with its
 * outcome. A file is only opened when its name and type fit, since opening already runs its code.
 * A plugin that fits stays usable for inspecting code even when its driver is missing.
 */
#include "candidate.h"

#include <stdio.h>
#include <string.h>

/* So that "name:4294967295" fits in the spec of a device. */
#define LONGEST_NAME 20u

/* Copies text, cut and terminated. */
static void copy_text(char *to, size_t capacity, const char *from, size_t length)
{
    if (length >= capacity)
        length = capacity - 1;
    memcpy(to, from, length);
    to[length] = '\0';
}

ddisp__backend *ddisp__candidate_add(struct ddisp__search *search, const char *name,
                                     uint64_t name_length, const char *path)
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

void ddisp__candidate_refuse(struct ddisp__search *search, ddisp__backend *backend,
                             ddisp_log_level level, ddisp_status status, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    (void)vsnprintf(backend->info.reason, sizeof backend->info.reason, format, values);
    va_end(values);
    backend->info.status = status;
    const char *name = backend->info.name, *path = backend->info.path;
    ddisp__context_log(search->context, level, "backend %s%s%s is not used: %s", name,
                       name[0] && path[0] ? " from " : "", path, backend->info.reason);
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

bool ddisp__candidate_next_name(const char **cursor, const char **out_name, uint64_t *out_length)
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

static bool is_wanted(const struct ddisp__search *search, const char *name)
{
    if (!search->wanted)
        return true;
    const char *cursor = search->wanted, *wanted;
    uint64_t length;
    while (ddisp__candidate_next_name(&cursor, &wanted, &length)) {
        if (length == strlen(name) && !memcmp(name, wanted, length))
            return true;
    }
    return false;
}

const ddisp__backend *ddisp__candidate_loaded(ddisp_context *context, const char *name)
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
static const char *const function_names[] = {
    "open",
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
    "launch",
};

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
static bool check_table(struct ddisp__search *search, ddisp__backend *backend,
                        const ddisp_backend_table *table)
{
    if (!table || table->size < 2 * sizeof(uint32_t)) {
        ddisp__candidate_refuse(search, backend, DDISP_LOG_LEVEL_WARNING, DDISP_STATUS_INCOMPATIBLE,
                                "%s gave no table", backend->info.path);
        return false;
    }
    backend->info.abi_version = table->abi;
    uint32_t major = table->abi >> 16, minor = table->abi & 0xFFFFu;
    if (major != DDISP_BACKEND_ABI_MAJOR || minor > DDISP_BACKEND_ABI_MINOR) {
        ddisp__candidate_refuse(
            search, backend, DDISP_LOG_LEVEL_WARNING, DDISP_STATUS_INCOMPATIBLE,
            "%s was built for plugin ABI %u.%u, library %s takes %u.0 to %u.%u; install plugin "
            "and library of one release",
            backend->info.path, major, minor, ddisp_version_string(), DDISP_BACKEND_ABI_MAJOR,
            DDISP_BACKEND_ABI_MAJOR, DDISP_BACKEND_ABI_MINOR);
        return false;
    }
    if (table->size < DDISP_BACKEND_TABLE_SIZE_0_1) {
        ddisp__candidate_refuse(
            search, backend, DDISP_LOG_LEVEL_WARNING, DDISP_STATUS_INCOMPATIBLE,
            "%s: its table of plugin ABI %u.%u has %u bytes, library %s (plugin ABI %u.%u) needs "
            "%u or more",
            backend->info.path, major, minor, table->size, ddisp_version_string(),
            DDISP_BACKEND_ABI_MAJOR, DDISP_BACKEND_ABI_MINOR, DDISP_BACKEND_TABLE_SIZE_0_1);
        return false;
    }
    if (!table->name || strcmp(table->name, backend->info.name) != 0) {
        ddisp__candidate_refuse(search, backend, DDISP_LOG_LEVEL_WARNING, DDISP_STATUS_INCOMPATIBLE,
                                "%s calls itself '%s', but its file name says '%s'",
                                backend->info.path, table->name ? table->name : "",
                                backend->info.name);
        return false;
    }
    const char *missing = missing_function(table);
    if (missing) {
        ddisp__candidate_refuse(search, backend, DDISP_LOG_LEVEL_WARNING, DDISP_STATUS_INCOMPATIBLE,
                                "%s: function '%s' of its table is NULL", backend->info.path,
                                missing);
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
void ddisp__candidate_open(struct ddisp__search *search, ddisp__backend *backend,
                           ddisp_backend_query_function query)
{
    const ddisp_backend_table *table = NULL;
    forget_error();
    ddisp_status status = query(DDISP_BACKEND_ABI, ddisp__services(), &table);
    if (status != DDISP_STATUS_OK) {
        ddisp__candidate_refuse(search, backend, DDISP_LOG_LEVEL_WARNING, DDISP_STATUS_INCOMPATIBLE,
                                "%s refused plugin ABI %u.%u of library %s: %s", backend->info.path,
                                DDISP_BACKEND_ABI_MAJOR, DDISP_BACKEND_ABI_MINOR,
                                ddisp_version_string(), reason_given(status));
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
        ddisp__candidate_refuse(search, backend, DDISP_LOG_LEVEL_INFO, status, "%s",
                                reason_given(status));
        return;
    }
    forget_error();
    status = table->device_count(instance, &backend->info.device_count);
    if (status != DDISP_STATUS_OK) {
        backend->info.device_count = 0;
        ddisp__candidate_refuse(search, backend, DDISP_LOG_LEVEL_WARNING, status, "%s",
                                reason_given(status));
        table->close(instance);
        return;
    }
    backend->instance = instance;
    ddisp__context_log(search->context, DDISP_LOG_LEVEL_INFO,
                       "backend %s %s loaded from %s: %u devices", backend->info.name,
                       backend->info.version, backend->info.path, backend->info.device_count);
}

ddisp__backend *ddisp__candidate_consider(struct ddisp__search *search, const char *name,
                                          const char *path)
{
    const ddisp__backend *loaded = ddisp__candidate_loaded(search->context, name);
    char loaded_path[sizeof loaded->info.path] = "";
    if (loaded)
        memcpy(loaded_path, loaded->info.path, sizeof loaded_path); /* entries move */

    ddisp__backend *backend = ddisp__candidate_add(search, name, strlen(name), path);
    if (!backend)
        return NULL;
    if (loaded) {
        ddisp__candidate_refuse(search, backend, DDISP_LOG_LEVEL_INFO,
                                DDISP_STATUS_BACKEND_UNAVAILABLE,
                                "not tried: %s was already loaded from %.400s", name, loaded_path);
        return NULL;
    }
    if (!is_wanted(search, name)) {
        ddisp__candidate_refuse(
            search, backend, DDISP_LOG_LEVEL_DEBUG, DDISP_STATUS_BACKEND_UNAVAILABLE,
            "not tried: %s asks for '%.300s' only", search->wanted_source, search->wanted);
        return NULL;
    }
    return backend;
}

void ddisp__candidate_file(void *user, const char *file)
{
    struct ddisp__search *search = user;
    static const char prefix[] = "ddisp-", suffix[] = ".so";
    size_t length = strlen(file), prefix_length = sizeof prefix - 1,
           suffix_length = sizeof suffix - 1;
    if (search->out_of_memory || length < prefix_length + suffix_length ||
        strncmp(file, prefix, prefix_length) != 0 ||
        strcmp(file + length - suffix_length, suffix) != 0)
        return;

    char path[DDISP__PATH_CAPACITY], name[LONGEST_NAME + 1], symbol[64], message[512];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", search->directory, file) >= sizeof path)
        return;
    const char *start = file + prefix_length;
    size_t name_length = length - prefix_length - suffix_length;
    if (!name_is_valid(start, name_length)) {
        ddisp__backend *backend = ddisp__candidate_add(search, start, name_length, path);
        if (backend)
            ddisp__candidate_refuse(
                search, backend, DDISP_LOG_LEVEL_WARNING, DDISP_STATUS_INVALID_ARGUMENT,
                "names of backends are 1 to %u of a-z, 0-9 and _", LONGEST_NAME);
        return;
    }
    memcpy(name, start, name_length);
    name[name_length] = '\0';

    ddisp__backend *backend = ddisp__candidate_consider(search, name, path);
    if (!backend)
        return;
    if (!ddisp__file_exists(path)) {
        ddisp__candidate_refuse(search, backend, DDISP_LOG_LEVEL_WARNING, DDISP_STATUS_NOT_FOUND,
                                "%s is neither a regular file nor a link to one",
                                backend->info.path);
        return;
    }
    void *library = ddisp__library_open(path, message, sizeof message);
    if (!library) {
        ddisp__candidate_refuse(search, backend, DDISP_LOG_LEVEL_WARNING, DDISP_STATUS_INCOMPATIBLE,
                                "%s", message);
        return;
    }
    snprintf(symbol, sizeof symbol, "ddisp_%s_backend_query", name);
    void *address = ddisp__library_symbol(library, symbol);
    ddisp_backend_query_function query = NULL;
    memcpy(&query, &address, sizeof query);
    if (!query) {
        ddisp__candidate_refuse(search, backend, DDISP_LOG_LEVEL_WARNING, DDISP_STATUS_INCOMPATIBLE,
                                "%s does not export %s; is it a backend?", backend->info.path,
                                symbol);
        return;
    }
    ddisp__candidate_open(search, backend, query);
}
