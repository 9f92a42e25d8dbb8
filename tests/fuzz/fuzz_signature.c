/*
 * fuzz_signature.c - canonical bytes of signatures from anywhere: refused, or read as a request
 * that is encoded to the same bytes again.
 */
#include "fuzz.h"

#include <diffdispatch/diffdispatch.h>

struct out {
    uint8_t bytes[4096];
    size_t size;
};

static void put(struct out *out, uint64_t value, uint32_t width)
{
    for (uint32_t i = 0; i < width; i++)
        out->bytes[out->size++] = (uint8_t)(value >> (8 * i));
}

static void put_text(struct out *out, const char *text)
{
    put(out, strlen(text), 1);
    for (; *text; text++)
        put(out, (uint8_t)*text, 1);
}

static uint32_t layout_of(uint32_t layout, bool overlaps)
{
    return layout == DDISP_LAYOUT_STRIDED && overlaps ? layout | 8 : layout;
}

static void put_param(struct out *out, const ddisp_signature_param *p, ddisp_mode mode)
{
    put(out, p->kind, 1);
    put(out, p->access, 1);
    put(out, p->dtype, 1);
    if (p->kind == DDISP_PARAM_KIND_SCALAR)
        return;
    put(out, p->rank, 1);
    put(out, layout_of(p->layout, p->flags & DDISP_SIGNATURE_OVERLAPS), 1);
    put(out, (uint32_t)__builtin_ctz(p->alignment), 1);
    put(out, p->alias, 1);
    if (mode == DDISP_MODE_FORWARD)
        return;
    put(out, p->flags & 15, 1);
    put(out, p->policy, 1);
    put(out, p->write_modes, 1);
    put(out, p->add_dtype, 1);
    put(out, layout_of(p->add_layout, p->flags & DDISP_SIGNATURE_ADD_OVERLAPS), 1);
    put(out, p->add_alias, 1);
    put(out, p->read_dtype, 1);
    put(out, layout_of(p->read_layout, p->flags & DDISP_SIGNATURE_READ_OVERLAPS), 1);
}

static void put_head(struct out *out, const ddisp_signature_info *info)
{
    put(out, 'D', 1);
    put(out, 'S', 1);
    put(out, info->version, 1);
    put_text(out, info->backend);
    put_text(out, info->architecture);
    put(out, info->vendor_id, 4);
    put(out, info->device_id, 4);
    put(out, info->driver_id, 4);
    put(out, info->features, 8);
    for (int i = 0; i < 16; i++)
        put(out, info->kernel[i], 1);
    put(out, info->mode, 1);
    put(out, info->flags, 8);
    put(out, info->index_width, 1);
    put(out, info->deterministic, 1);
    put(out, info->atomic_mode, 1);
    put(out, info->param_count, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ddisp_signature_info info = {.size = (uint32_t)sizeof info};
    ddisp_signature_param param = {.size = (uint32_t)sizeof param};
    uint8_t *bytes = exact_copy(data, size);
    char text[16384];
    uint64_t length = 0;
    ddisp_status status = ddisp_signature_decode(bytes, size, &info);
    HOLDS(ddisp_signature_format(bytes, size, text, sizeof text, &length) == status);
    HOLDS(status || (length > 0 && length < sizeof text && strlen(text) == length));
    if (status == DDISP_STATUS_OK) {
        struct out out = {.size = 0};
        put_head(&out, &info);
        for (uint32_t i = 0; i < info.param_count; i++) {
            HOLDS(ddisp_signature_decode_param(bytes, size, i, &param) == DDISP_STATUS_OK);
            put_param(&out, &param, info.mode);
        }
        HOLDS(out.size == size);
        HOLDS(memcmp(out.bytes, bytes, size) == 0);
    }
    HOLDS(ddisp_signature_decode_param(bytes, size, 64, &param) != DDISP_STATUS_OK);
    free(bytes);
    return 0;
}
