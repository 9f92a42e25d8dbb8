/*
 * cuda_nvrtc_compile.c - source to a cubin, or to PTX for an architecture that this NVRTC does not
 * know.
 *
 * In: source, headers and options of a code, an architecture; neither driver nor device. Out: an
 * image that has the entry asked for. What the compiler says against the code is passed on.
 */
#include "cuda_nvrtc.h"

/* Header files as NVRTC takes them: names, and texts that end with a NUL. */
typedef struct headers {
    const char **texts, **names; /* allocated; texts too */
    uint32_t count;
} headers;

static void release_headers(const ddisp_backend_services *services, headers *self)
{
    for (uint32_t i = 0; i < self->count && self->texts; i++) {
        char *text;
        memcpy(&text, &self->texts[i], sizeof text);
        backend_release(services, text);
    }
    backend_release(services, self->texts);
    backend_release(services, self->names);
}

static char *copy_text(const ddisp_backend_services *services, const void *bytes,
                       uint64_t size_bytes)
{
    char *text = backend_allocate(services, size_bytes + 1);
    if (text && size_bytes > 0) {
        memcpy(text, bytes, size_bytes);
    }
    return text;
}

static bool make_headers(const ddisp_backend_services *services, const ddisp_code *code,
                         headers *self)
{
    *self = (headers){.count = code->header_count};
    if (self->count == 0) {
        return true;
    }
    self->texts = backend_allocate(services, self->count * sizeof *self->texts);
    self->names = backend_allocate(services, self->count * sizeof *self->names);
    if (!self->texts || !self->names) {
        return false;
    }
    for (uint32_t i = 0; i < self->count; i++) {
        self->names[i] = code->headers[i].name;
        self->texts[i] = copy_text(services, code->headers[i].bytes, code->headers[i].size_bytes);
        if (!self->texts[i]) {
            return false;
        }
    }
    return true;
}

static ddisp_status failed(const ddisp_backend_services *services, const nvrtc__library *api,
                           const ddisp_backend_variant *variant, const char *call,
                           nvrtc__result why)
{
    return backend_fail(
        services,
        why == NVRTC__OUT_OF_MEMORY ? DDISP_STATUS_OUT_OF_MEMORY : DDISP_STATUS_CODE_REJECTED, why,
        "kernel %s, entry '%s': %s of NVRTC %d.%d failed with %d", variant->code->kernel_name,
        variant->entry_name, call, api->version / 1000, api->version % 1000 / 10, why);
}

/* The log belongs to the message when the source was refused, and is passed on otherwise. */
static ddisp_status judge(const ddisp_backend_services *services, const nvrtc__library *api,
                          const ddisp_backend_variant *variant, nvrtc__program it,
                          nvrtc__result verdict)
{
    size_t size = 0;
    char *log = NULL;
    if (api->nvrtcGetProgramLogSize(it, &size) == 0 && size > 1) {
        log = backend_allocate(services, size + 1);
    }
    if (log && api->nvrtcGetProgramLog(it, log) != 0) {
        log[0] = '\0';
    }
    const char *said = log ? log : "";
    ddisp_status status = DDISP_STATUS_OK;
    if (verdict == NVRTC__COMPILATION) {
        status = backend_fail(services, DDISP_STATUS_CODE_REJECTED, verdict,
                              "kernel %s, entry '%s': NVRTC %d.%d refused the source:\n%s",
                              variant->code->kernel_name, variant->entry_name, api->version / 1000,
                              api->version % 1000 / 10, said);
    } else if (verdict != 0) {
        status = failed(services, api, variant, "nvrtcCompileProgram", verdict);
    } else if (said[0]) {
        backend_log(services, DDISP_LOG_LEVEL_INFO, "kernel %s: NVRTC says: %s",
                    variant->code->kernel_name, said);
    }
    backend_release(services, log);
    return status;
}

static ddisp_status fetch(const ddisp_backend_services *services, const nvrtc__library *api,
                          const ddisp_backend_variant *variant, nvrtc__program it,
                          cuda__image *out_image)
{
    size_t size = 0;
    nvrtc__result why = api->nvrtcGetCUBINSize(it, &size);
    bool binary = why == 0 && size > 0; /* of virtual architectures there is PTX only */
    if (!binary) {
        why = api->nvrtcGetPTXSize(it, &size);
    }
    if (why != 0) {
        return failed(services, api, variant, "nvrtcGetPTXSize", why);
    }
    char *bytes = backend_allocate(services, size + 1);
    if (!bytes) {
        return backend_fail(services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "kernel %s: no host memory for %zu bytes of compiled code",
                            variant->code->kernel_name, size);
    }
    why = binary ? api->nvrtcGetCUBIN(it, bytes) : api->nvrtcGetPTX(it, bytes);
    if (why != 0) {
        backend_release(services, bytes);
        return failed(services, api, variant, binary ? "nvrtcGetCUBIN" : "nvrtcGetPTX", why);
    }
    *out_image = (cuda__image){bytes, size};
    return DDISP_STATUS_OK;
}

/* What was compiled has the entry under the name that it was declared with. */
static ddisp_status check_entry(const ddisp_backend_services *services,
                                const ddisp_backend_variant *variant, const cuda__image *image)
{
    cuda__cubin cubin;
    cuda__ptx_reader reader;
    cuda__ptx_entry entry;
    uint64_t switches;
    uint32_t count = 0;
    bool found = cuda__cubin_open(&cubin, image->bytes, image->size_bytes)
                     ? cuda__ptx_find(&reader, image->bytes, image->size_bytes, variant->entry_name,
                                      &entry, &switches) == CUDA__PTX_FOUND
                     : cuda__cubin_has(&cubin, variant->entry_name, &count);
    if (found) {
        return DDISP_STATUS_OK;
    }
    return backend_fail(services, DDISP_STATUS_CODE_REJECTED, 0,
                        "kernel %s: the source compiles, but has no entry '%s': define it as "
                        "extern \"C\" __global__",
                        variant->code->kernel_name, variant->entry_name);
}

ddisp_status cuda__nvrtc_compile(const ddisp_backend_services *services, int driver_version,
                                 const char *architecture, const ddisp_backend_variant *variant,
                                 cuda__image *out_image)
{
    const ddisp_code *code = variant->code->code;
    nvrtc__options given = {0};
    headers files = {0};
    nvrtc__program it = NULL;
    char *source = NULL;
    ddisp_status status = cuda__nvrtc_check(services, driver_version);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    const nvrtc__library *api = cuda__nvrtc_find(driver_version);
    status = cuda__nvrtc_options(services, api, architecture, variant, &given);
    if (status != DDISP_STATUS_OK) {
        goto done;
    }
    source = copy_text(services, code->bytes, code->size_bytes);
    if (!source || !make_headers(services, code, &files)) {
        status =
            backend_fail(services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                         "kernel %s: no host memory for the source", variant->code->kernel_name);
        goto done;
    }
    nvrtc__result why = api->nvrtcCreateProgram(&it, source, variant->code->kernel_name,
                                                (int)files.count, files.texts, files.names);
    if (why != 0) {
        it = NULL;
        status = failed(services, api, variant, "nvrtcCreateProgram", why);
        goto done;
    }
    why = api->nvrtcCompileProgram(it, (int)given.count, given.list);
    status = judge(services, api, variant, it, why);
    if (status == DDISP_STATUS_OK) {
        status = fetch(services, api, variant, it, out_image);
    }
    if (status == DDISP_STATUS_OK) {
        status = check_entry(services, variant, out_image);
        if (status != DDISP_STATUS_OK) {
            backend_release(services, out_image->bytes);
        }
    }
done:
    if (it) {
        (void)api->nvrtcDestroyProgram(&it);
    }
    release_headers(services, &files);
    backend_release(services, source);
    backend_release(services, given.text);
    return status;
}
