/*
 * cuda_nvrtc.c - NVRTC, the toolkit's compiler as a library: found by its soname when it is first
 * needed, never linked; and the options that it is given.
 *
 * In: a driver's version, or none. Out: the newest library of at most the driver's major version
 * (what a newer compiler writes, an older driver does not take), or in words what is missing.
 */
#include "cuda_nvrtc.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>

#define OLDEST_MAJOR 12
#define NEWEST_MAJOR 16

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static nvrtc__library majors[NEWEST_MAJOR + 1];

/* ---- the library */

static bool load(nvrtc__library *self, int major)
{
    char name[32];
    int own_major = 0, minor = 0;
    Dl_info where;
    struct stat file;
    (void)snprintf(name, sizeof name, "libnvrtc.so.%d", major);
    void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        return false;
    }
    void *address;
#define FIND(function, parameters)                                                                 \
    address = dlsym(library, #function);                                                           \
    if (!address) {                                                                                \
        return false;                                                                              \
    }                                                                                              \
    memcpy(&self->function, &address, sizeof address);
    NVRTC__FUNCTIONS(FIND)
#undef FIND
    if (dladdr(address, &where) && where.dli_fname && stat(where.dli_fname, &file) == 0) {
        (void)snprintf(self->build, sizeof self->build, "%llu-%lld",
                       (unsigned long long)file.st_size, (long long)file.st_mtime);
    }
    if (self->nvrtcVersion(&own_major, &minor) != 0 ||
        self->nvrtcGetNumSupportedArchs(&self->arch_count) != 0 || self->arch_count <= 0 ||
        self->arch_count > NVRTC__MAX_ARCHITECTURES ||
        self->nvrtcGetSupportedArchs(self->archs) != 0) {
        return false;
    }
    self->version = own_major * 1000 + minor * 10;
    return true;
}

const nvrtc__library *cuda__nvrtc_find(int driver_version)
{
    int newest = driver_version ? driver_version / 1000 : NEWEST_MAJOR;
    const nvrtc__library *found = NULL;
    pthread_mutex_lock(&lock);
    for (int major = newest < NEWEST_MAJOR ? newest : NEWEST_MAJOR; major >= OLDEST_MAJOR && !found;
         major--) {
        nvrtc__library *each = &majors[major];
        if (!each->tried) {
            each->tried = true;
            each->loaded = load(each, major);
        }
        found = each->loaded ? each : NULL;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

bool cuda__nvrtc_found(int driver_version)
{
    return cuda__nvrtc_find(driver_version) != NULL;
}

ddisp_status cuda__nvrtc_check(const ddisp_backend_services *services, int driver_version)
{
    int newest = driver_version && driver_version / 1000 < NEWEST_MAJOR ? driver_version / 1000
                                                                        : NEWEST_MAJOR;
    if (cuda__nvrtc_find(driver_version)) {
        return DDISP_STATUS_OK;
    }
    return backend_fail(services, DDISP_STATUS_UNSUPPORTED, 0,
                        "cuda-c++ needs NVRTC, and there is no libnvrtc.so.%d to libnvrtc.so.%d: "
                        "install it (it comes with the CUDA toolkit), or put its folder into "
                        "LD_LIBRARY_PATH",
                        OLDEST_MAJOR, newest);
}

/* ---- options */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The option for an architecture such as sm_90: as it is, or PTX for the newest older one. */
static ddisp_status choose_architecture(const ddisp_backend_services *services,
                                        const nvrtc__library *api, const char *architecture,
                                        char *text, size_t capacity)
{
    int wanted = strncmp(architecture, "sm_", 3) == 0 ? atoi(architecture + 3) : 0, older = 0;
    for (int i = 0; i < api->arch_count; i++) {
        if (api->archs[i] == wanted) {
            (void)snprintf(text, capacity, "--gpu-architecture=%s", architecture);
            return DDISP_STATUS_OK;
        }
        if (api->archs[i] < wanted && api->archs[i] > older) {
            older = api->archs[i];
        }
    }
    if (older == 0) {
        return backend_fail(services, DDISP_STATUS_UNSUPPORTED, 0,
                            "NVRTC %d.%d compiles for sm_%d and newer, not for %s",
                            api->version / 1000, api->version % 1000 / 10, api->archs[0],
                            architecture);
    }
    (void)snprintf(text, capacity, "--gpu-architecture=compute_%d", older);
    return DDISP_STATUS_OK;
}

static bool chooses_architecture(const char *option)
{
    return strncmp(option, "--gpu-architecture", 18) == 0 || strncmp(option, "-arch", 5) == 0;
}

/* Splits the user's options on blanks. */
static void split(char *at, nvrtc__options *self)
{
    while (*at && self->count < NVRTC__MAX_OPTIONS) {
        while (is_blank(*at)) {
            at++;
        }
        if (*at == '\0') {
            return;
        }
        self->own_architecture |= chooses_architecture(at);
        self->list[self->count++] = at;
        while (*at && !is_blank(*at)) {
            at++;
        }
        if (*at) {
            *at++ = '\0';
        }
    }
}

ddisp_status cuda__nvrtc_options(const ddisp_backend_services *services, const nvrtc__library *api,
                                 const char *architecture, const ddisp_backend_variant *variant,
                                 nvrtc__options *self)
{
    enum { SWITCH_BYTES = 32, ARCHITECTURE_BYTES = 64 };
    const ddisp_backend_code *code = variant->code;
    const char *given = code->code->options ? code->code->options : "";
    size_t given_bytes = strlen(given) + 1;
    *self = (nvrtc__options){
        .text = backend_allocate(services, given_bytes + ARCHITECTURE_BYTES +
                                               (size_t)code->param_count * SWITCH_BYTES)};
    if (!self->text) {
        return backend_fail(services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "kernel %s: no host memory for compiler options", code->kernel_name);
    }
    memcpy(self->text, given, given_bytes);
    char *at = self->text + given_bytes;
    split(self->text, self);
    if (self->count + code->param_count + 1 > NVRTC__MAX_OPTIONS) {
        return backend_fail(services, DDISP_STATUS_LIMIT_EXCEEDED, 0,
                            "kernel %s: more compiler options than %u", code->kernel_name,
                            NVRTC__MAX_OPTIONS - code->param_count - 1);
    }
    if (!self->own_architecture) {
        ddisp_status status =
            choose_architecture(services, api, architecture, at, ARCHITECTURE_BYTES);
        if (status != DDISP_STATUS_OK) {
            return status;
        }
        self->list[self->count++] = at;
        at += ARCHITECTURE_BYTES;
    }
    for (uint32_t i = 0; i < code->param_count; i++) {
        if (code->params[i].flags & DDISP_PARAM_DIFFERENTIABLE) {
            (void)snprintf(at, SWITCH_BYTES, "-DDDISP_SWITCH_%u=%u", i,
                           (uint32_t)(variant->switches >> i & 1));
            self->list[self->count++] = at;
            at += SWITCH_BYTES;
        }
    }
    return DDISP_STATUS_OK;
}

ddisp_status cuda__nvrtc_key(const ddisp_backend_services *services, int driver_version,
                             const char *architecture, const ddisp_backend_variant *variant,
                             char *text, size_t capacity)
{
    nvrtc__options given = {0};
    size_t used = 0;
    ddisp_status status = cuda__nvrtc_check(services, driver_version);
    if (status != DDISP_STATUS_OK) {
        return status;
    }
    const nvrtc__library *api = cuda__nvrtc_find(driver_version);
    status = cuda__nvrtc_options(services, api, architecture, variant, &given);
    if (status == DDISP_STATUS_OK) {
        used = (size_t)snprintf(text, capacity, "nvrtc %d %s", api->version, api->build);
        for (uint32_t i = 0; i < given.count && used < capacity; i++) {
            used += (size_t)snprintf(text + used, capacity - used, " %s", given.list[i]);
        }
        if (used >= capacity) {
            status = backend_fail(services, DDISP_STATUS_UNSUPPORTED, 0,
                                  "kernel %s: the compiler options are too long for a key",
                                  variant->code->kernel_name);
        }
    }
    backend_release(services, given.text);
    return status;
}
