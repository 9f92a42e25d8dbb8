/*
 * artifact.c - how a variant is built: what the kernel cache on disk has is handed to the backend,
 * what it has not is compiled, handed over and kept. Whatever is wrong with the cache, the variant
 * is built; only the backend's own failure is one. Formats that are not worth keeping, and codes
 * that include files which the library does not see, never touch the disk.
 */
#include "bytes.h"
#include "cache_file.h"
#include "variant.h"

#include <string.h>

/* Most bytes that a backend adds to a key. */
#define BACKEND_KEY_BYTES 4096

/* ---- may it be kept ---- */

static bool begins(const char *word, uint64_t length, const char *with)
{
    uint64_t size = strlen(with);
    return length >= size && memcmp(word, with, size) == 0;
}

bool ddisp__artifact_reads_files(const char *options)
{
    static const char *const words[] = {
        "-I",      "--include-path", "-include",       "--pre-include", "-isystem",
        "-iquote", "-idir",          "--options-file", "-optf",         "@",
        "-pch",    "--pch",          "-use-pch",       "--use-pch"};
    const char *at = options;
    while (*at) {
        at += strspn(at, " \t\r\n\"'");
        uint64_t length = strcspn(at, " \t\r\n\"'");
        for (uint32_t i = 0; i < sizeof words / sizeof words[0]; i++)
            if (begins(at, length, words[i]))
                return true;
        at += length;
    }
    return false;
}

/* ---- the key ---- */

static void put_device(ddisp__bytes *key, const ddisp_device *device)
{
    const ddisp_device_info *info = &device->info;
    ddisp__bytes_text(key, device->table->name);
    ddisp__bytes_text(key, device->table->version ? device->table->version : "");
    ddisp__bytes_text(key, info->architecture);
    ddisp__bytes_number(key, info->vendor_id, 4);
    ddisp__bytes_number(key, info->device_id, 4);
    ddisp__bytes_number(key, info->driver_id, 4);
    ddisp__bytes_number(key, info->features, 8);
}

static void put_variant(ddisp__bytes *key, const ddisp_backend_variant *variant)
{
    ddisp__bytes_number(key, variant->mode, 4);
    ddisp__bytes_text(key, variant->entry_name);
    for (uint32_t k = 0; k < 3; k++)
        ddisp__bytes_number(key, variant->entry->group_size[k], 4);
    ddisp__bytes_number(key, variant->switches, 8);
    ddisp__bytes_number(key, variant->switch_mask, 8);
    ddisp__bytes_number(key, variant->code->block_size_bytes, 4);
    ddisp__bytes_number(key, variant->code->param_count, 4);
    for (uint32_t i = 0; i < variant->code->param_count; i++) {
        const ddisp_param *p = &variant->code->params[i];
        ddisp__bytes_number(key, p->kind, 4);
        ddisp__bytes_number(key, p->access, 4);
        ddisp__bytes_number(key, p->dtype, 4);
        ddisp__bytes_number(key, p->rank, 4);
        ddisp__bytes_number(key, p->flags, 8);
    }
}

/*
 * Everything that the artifact depends on, the source and its headers in full. False when the
 * backend does not want it kept, or there is no memory for the key.
 */
static bool make_key(const ddisp__launch *launch, const ddisp__code *code,
                     const ddisp_backend_variant *variant, ddisp__bytes *key)
{
    const ddisp_device *device = launch->device;
    uint8_t backend_key[BACKEND_KEY_BYTES];
    uint32_t size_bytes = 0;
    ddisp_error before = *ddisp__error();
    ddisp_status status =
        device->table->artifact_key(ddisp__services(), device->handle, device->info.architecture,
                                    variant, backend_key, sizeof backend_key, &size_bytes);
    ddisp__error_restore(&before);
    if (status || size_bytes > sizeof backend_key)
        return false;
    ddisp__bytes_number(key, ddisp_version(), 4);
    ddisp__bytes_number(key, DDISP_BACKEND_ABI, 4);
    put_device(key, device);
    put_variant(key, variant);
    ddisp__bytes_number(key, size_bytes, 4);
    ddisp__bytes_put(key, backend_key, size_bytes);
    ddisp__code_bytes(launch->kernel, code, true, key);
    return !key->failed;
}

/* ---- building ---- */

static ddisp_status build(ddisp__launch *launch, ddisp_backend_variant *variant,
                          const void *artifact, uint64_t size_bytes, void **out_handle)
{
    ddisp_device *device = launch->device;
    variant->artifact = artifact;
    variant->artifact_size_bytes = size_bytes;
    ddisp_status status = ddisp__device_result(
        device, device->table->variant_build(device->handle, variant, out_handle));
    variant->artifact = NULL;
    variant->artifact_size_bytes = 0;
    return status;
}

/* Compiles, builds and keeps. `repairs`: in place of an entry that was no good. */
static ddisp_status make(ddisp__launch *launch, ddisp_backend_variant *variant,
                         const ddisp__bytes *key, bool repairs, void **out_handle)
{
    ddisp_kernel *kernel = launch->kernel;
    ddisp_device *device = launch->device;
    void *bytes = NULL;
    uint64_t size_bytes = 0;
    launch->origin = DDISP_VARIANT_ORIGIN_BUILT;
    ddisp_status status =
        ddisp__device_result(device, device->table->artifact_make(ddisp__services(), device->handle,
                                                                  device->info.architecture,
                                                                  variant, &bytes, &size_bytes));
    if (status == DDISP_STATUS_UNSUPPORTED)
        return build(launch, variant, NULL, 0, out_handle);
    if (status)
        return status;
    status = build(launch, variant, bytes, size_bytes, out_handle);
    if (!status) {
        atomic_fetch_add_explicit(&kernel->artifacts_made, 1, memory_order_relaxed);
        if (repairs)
            atomic_fetch_add_explicit(&kernel->artifacts_repaired, 1, memory_order_relaxed);
        ddisp__cache_store(kernel->context, key, bytes, size_bytes);
    }
    ddisp__release(NULL, bytes);
    return status == DDISP_STATUS_CODE_REJECTED ? build(launch, variant, NULL, 0, out_handle)
                                                : status;
}

ddisp_status ddisp__artifact_build(ddisp__launch *launch, const ddisp__code *code,
                                   ddisp_backend_variant *variant, void **out_handle)
{
    ddisp_kernel *kernel = launch->kernel;
    const ddisp_backend_table *table = launch->device->table;
    ddisp__bytes key = {.context = kernel->context}, entry = {.context = kernel->context};
    launch->origin = DDISP_VARIANT_ORIGIN_BUILT;
    if (!ddisp__table_offers(table, artifact_key) || !ddisp__table_offers(table, artifact_make) ||
        !ddisp__cache_on(kernel->context) || ddisp__artifact_reads_files(code->desc.options) ||
        !make_key(launch, code, variant, &key)) {
        ddisp__bytes_clear(&key);
        return build(launch, variant, NULL, 0, out_handle);
    }
    ddisp__cache_found found = ddisp__cache_read(kernel->context, &key, &entry);
    ddisp_status status = DDISP_STATUS_CODE_REJECTED;
    if (found == DDISP__CACHE_HIT) {
        ddisp_error before = *ddisp__error();
        status = build(launch, variant, entry.data, entry.size, out_handle);
        if (!status) {
            launch->origin = DDISP_VARIANT_ORIGIN_LOADED;
            atomic_fetch_add_explicit(&kernel->artifacts_read, 1, memory_order_relaxed);
        } else if (status == DDISP_STATUS_CODE_REJECTED) {
            ddisp__error_restore(&before);
        }
    }
    if (status == DDISP_STATUS_CODE_REJECTED) /* not there, or no good any more */
        status = make(launch, variant, &key, found != DDISP__CACHE_MISS, out_handle);
    ddisp__bytes_clear(&entry);
    ddisp__bytes_clear(&key);
    return status;
}
