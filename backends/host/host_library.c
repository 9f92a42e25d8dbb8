/*
 * host_library.c - codes of format "host-library": functions of a shared object that the code names
 * by its absolute path.
 *
 * In: a path and names. Out: functions. A library is loaded when a kernel names it, never unloaded,
 * and its symbols stay its own. What the system says against a file is passed on.
 */
#include "host_internal.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <string.h>

static ddisp_status check_path(const ddisp_backend_services *services,
                               const ddisp_backend_code *code)
{
    const char *path = code->code->bytes;
    uint64_t length = path ? strnlen(path, code->code->size_bytes) : 0;
    if (length == 0 || path[0] != '/' || length == code->code->size_bytes) {
        return backend_fail(services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: the bytes of host-library code are the absolute path of a "
                            "shared object and its NUL; these %" PRIu64 " are %s",
                            code->kernel_name, code->code->size_bytes,
                            length == 0      ? "empty"
                            : path[0] != '/' ? "a relative path"
                                             : "not terminated");
    }
    return DDISP_STATUS_OK;
}

ddisp_status host__library_find(const ddisp_backend_services *services,
                                const ddisp_backend_code *code, const char *name,
                                ddisp_host_function *out_function)
{
    ddisp_status status = check_path(services, code);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    const char *path = code->code->bytes;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        const char *why = dlerror();
        return backend_fail(services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: the library of host-library code cannot be loaded: %s",
                            code->kernel_name, why ? why : path);
    }
    void *symbol = name ? dlsym(library, name) : NULL;
    (void)dlclose(library); /* it stays all the same */
    if (name && !symbol) {
        return backend_fail(services, DDISP_STATUS_NOT_FOUND, 0,
                            "kernel %s: library %s has no symbol '%s' (define it extern \"C\" and "
                            "visible)",
                            code->kernel_name, path, name);
    }
    if (name) {
        memcpy(out_function, &symbol, sizeof symbol);
    }
    return DDISP_STATUS_OK;
}

/* Names with masks that are not known yet are looked for when their variant is built. */
static ddisp_status inspect_entry(const ddisp_backend_services *services,
                                  const ddisp_backend_code *code, const ddisp_entry *entry)
{
    char name[512];
    ddisp_host_function function;
    const char *mask = strstr(entry->name, "{mask}");
    bool open = mask && !(entry->flags & DDISP_ENTRY_MASKED);
    if (entry->name[0] == '\0') {
        return backend_fail(services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: an entry of the host-library code has no name",
                            code->kernel_name);
    }
    if (mask) {
        (void)snprintf(name, sizeof name, "%.*s%" PRIu64 "%s", (int)(mask - entry->name),
                       entry->name, entry->mask, mask + strlen("{mask}"));
    } else {
        (void)snprintf(name, sizeof name, "%s", entry->name);
    }
    return host__library_find(services, code, open ? NULL : name, &function);
}

ddisp_status host__library_inspect(const ddisp_backend_services *services,
                                   const ddisp_backend_code *code)
{
    ddisp_status status = DDISP_STATUS_OK;
    for (uint32_t i = 0; i < code->code->entry_count && status == DDISP_STATUS_OK; i++) {
        status = inspect_entry(services, code, &code->code->entries[i]);
    }
    return status;
}
