/*
 * signature_decode.c - canonical bytes of a signature back into a request that people and programs
 * can read. The bytes may be anything: what the encoder cannot have written is refused, with the
 * offset, so that whatever is taken would be encoded to the same bytes again.
 */
#include "bytes.h"
#include "objects.h"
#include "signature.h"

#include <diffdispatch/signature.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SLOT_BITS 15u

typedef struct reader {
    const uint8_t *bytes;
    uint64_t size, at;
    ddisp_status status;
} reader;

/* The first refusal counts; afterwards everything reads as 0. */
__attribute__((format(printf, 3, 4))) static void refuse(reader *r, uint64_t at, const char *format,
                                                         ...)
{
    char text[160];
    va_list arguments;
    if (r->status)
        return;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    r->status =
        ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                    "signature of %" PRIu64 " bytes: byte %" PRIu64 ": %s", r->size, at, text);
}

static uint64_t get(reader *r, uint32_t width)
{
    uint64_t value = 0;
    if (!r->status && width > r->size - r->at)
        refuse(r, r->at, "it ends here, %u more are needed", width);
    if (r->status)
        return 0;
    for (uint32_t i = 0; i < width; i++)
        value |= (uint64_t)r->bytes[r->at + i] << (8 * i);
    r->at += width;
    return value;
}

/* One byte that is least to most; least when it is refused. */
static uint32_t get_range(reader *r, uint32_t least, uint32_t most, const char *what)
{
    uint64_t at = r->at;
    uint32_t value = (uint32_t)get(r, 1);
    if (!r->status && (value < least || value > most))
        refuse(r, at, "%s is %u, expected %u to %u", what, value, least, most);
    return r->status ? least : value;
}

static void get_text(reader *r, char *text, const char *what)
{
    uint64_t at = r->at;
    uint32_t length = get_range(r, 1, DDISP__SIGNATURE_TEXT, what);
    for (uint32_t i = 0; i < length && !r->status; i++) {
        text[i] = (char)get(r, 1);
        if (!r->status && (text[i] < 0x20 || text[i] > 0x7E))
            refuse(r, r->at - 1, "%s that begins at byte %" PRIu64 " is no text", what, at);
    }
}

/* ---- the launch */

static void get_head(reader *r, ddisp_signature_info *info)
{
    const uint64_t elsewhere = DDISP_LAUNCH_DRY_RUN | DDISP_LAUNCH_DETERMINISTIC;
    if (get(r, 1) != 'D' || get(r, 1) != 'S')
        refuse(r, 0, "a signature begins with \"DS\"");
    info->version = (uint32_t)get(r, 1);
    if (!r->status && info->version != DDISP__SIGNATURE_VERSION)
        r->status = ddisp__fail(DDISP_STATUS_INCOMPATIBLE,
                                "signature of encoding version %u, this library reads version %u",
                                info->version, DDISP__SIGNATURE_VERSION);
    get_text(r, info->backend, "length of the backend's name");
    get_text(r, info->architecture, "length of the architecture");
    info->vendor_id = (uint32_t)get(r, 4);
    info->device_id = (uint32_t)get(r, 4);
    info->driver_id = (uint32_t)get(r, 4);
    info->features = get(r, 8);
    for (uint32_t i = 0; i < sizeof info->kernel; i++)
        info->kernel[i] = (uint8_t)get(r, 1);
    info->mode = get_range(r, DDISP_MODE_FORWARD, DDISP_MODE_BACKWARD, "mode");
    uint64_t at = r->at;
    info->flags = get(r, 8);
    if (!r->status &&
        (info->mode == DDISP_MODE_FORWARD ? info->flags != 0 : (info->flags & elsewhere) != 0))
        refuse(r, at, "flags 0x%" PRIx64 " have no part in a signature of this mode", info->flags);
    info->index_width = get_range(r, 64, 64, "index width");
    info->deterministic = get_range(r, 0, info->mode == DDISP_MODE_BACKWARD, "deterministic mode");
    info->atomic_mode = get_range(r, 0, 0, "atomic mode");
    info->param_count = get_range(r, 0, DDISP_MAX_PARAMS, "number of parameters");
}

/* ---- a parameter */

static uint32_t get_layout(reader *r, uint32_t *flags, uint32_t overlaps)
{
    uint64_t at = r->at;
    uint32_t value = (uint32_t)get(r, 1), layout = value & ~DDISP__SIGNATURE_OVERLAPS;
    bool shares = value != layout || layout == DDISP_LAYOUT_BROADCAST;
    if (!r->status && ((layout != DDISP_LAYOUT_DENSE && layout != DDISP_LAYOUT_STRIDED &&
                        layout != DDISP_LAYOUT_BROADCAST) ||
                       (value != layout && layout != DDISP_LAYOUT_STRIDED)))
        refuse(r, at, "unknown layout class %u", value);
    if (shares)
        *flags |= overlaps;
    return layout;
}

/* A dtype and a layout, or two zeros. */
static ddisp_dtype get_gradient(reader *r, bool there, const char *what)
{
    if (there)
        return get_range(r, DDISP_DTYPE_F16, DDISP_DTYPE_F64, what);
    (void)get_range(r, 0, 0, what);
    return DDISP_DTYPE_ANY;
}

static void get_slots(reader *r, ddisp_signature_param *p, uint32_t index)
{
    uint64_t at = r->at;
    uint32_t slots = get_range(r, 0, SLOT_BITS, "slots");
    bool add = (slots & DDISP_SIGNATURE_HAS_ADD) != 0,
         read = (slots & DDISP_SIGNATURE_HAS_READ) != 0;
    bool wanted = (slots & DDISP_SIGNATURE_REQUIRES_GRAD) != 0;
    bool upstream = (slots & DDISP_SIGNATURE_UPSTREAM) != 0;
    if ((wanted && !add) || (upstream && !read) || (add && !(p->access & DDISP_ACCESS_IN)) ||
        (read && !(p->access & DDISP_ACCESS_OUT)) || (add && p->dtype < DDISP_DTYPE_F16))
        refuse(r, at, "slots 0x%x do not fit the parameter", slots);
    p->flags |= slots;
    bool frozen = add && !wanted;
    p->policy =
        get_range(r, frozen ? DDISP_POLICY_AUTO : 0, frozen ? DDISP_POLICY_SCRATCH : 0, "policy");
    p->write_modes =
        get_range(r, add, add ? (2u << DDISP_WRITE_MODE_UNKNOWN) - 1 : 0, "write modes");
    p->add_dtype = get_gradient(r, wanted, "dtype of the gradient");
    if (wanted)
        p->add_layout = get_layout(r, &p->flags, DDISP_SIGNATURE_ADD_OVERLAPS);
    else
        (void)get_range(r, 0, 0, "layout class of the gradient");
    p->add_alias = get_range(r, 0, wanted ? index : 0, "alias class of the gradient");
    p->read_dtype = get_gradient(r, upstream, "dtype of the upstream gradient");
    if (upstream)
        p->read_layout = get_layout(r, &p->flags, DDISP_SIGNATURE_READ_OVERLAPS);
    else
        (void)get_range(r, 0, 0, "layout class of the upstream gradient");
}

static void get_param(reader *r, ddisp_mode mode, uint32_t index, ddisp_signature_param *p)
{
    p->size = (uint32_t)sizeof *p;
    p->kind = get_range(r, DDISP_PARAM_KIND_TENSOR, DDISP_PARAM_KIND_SCALAR, "kind");
    bool scalar = p->kind == DDISP_PARAM_KIND_SCALAR;
    p->access =
        get_range(r, DDISP_ACCESS_IN, scalar ? DDISP_ACCESS_IN : DDISP_ACCESS_INOUT, "access");
    p->dtype = get_range(r, DDISP_DTYPE_BOOL, DDISP_DTYPE_F64, "dtype");
    if (scalar)
        return;
    p->rank = get_range(r, 0, DDISP_MAX_RANK, "rank");
    p->layout = get_layout(r, &p->flags, DDISP_SIGNATURE_OVERLAPS);
    p->alignment = UINT32_C(1) << get_range(r, 0, 31, "alignment class");
    p->alias = get_range(r, 0, index, "alias class");
    if (mode == DDISP_MODE_BACKWARD)
        get_slots(r, p, index);
}

/* ---- all of it */

/* Whether the earlier parameters that this one names are such that they can be the first of their
 * kind. */
static void check_aliases(reader *r, const ddisp_signature_param *params, uint32_t index)
{
    const ddisp_signature_param *p = &params[index];
    const ddisp_signature_param *data = p->alias ? &params[p->alias - 1] : NULL;
    const ddisp_signature_param *gradient = p->add_alias ? &params[p->add_alias - 1] : NULL;
    if (data && (data->kind || data->dtype != p->dtype || data->rank != p->rank ||
                 data->layout != p->layout || data->alias))
        refuse(r, r->at, "parameter %u cannot have the data of parameter %u", index, p->alias - 1);
    if (gradient && (!(gradient->flags & DDISP_SIGNATURE_REQUIRES_GRAD) || gradient->add_alias))
        refuse(r, r->at, "parameter %u cannot have the gradient of parameter %u", index,
               p->add_alias - 1);
}

static ddisp_status decode(const uint8_t *bytes, uint64_t size_bytes, ddisp_signature_info *info,
                           ddisp_signature_param params[DDISP_MAX_PARAMS])
{
    reader r = {.bytes = bytes, .size = size_bytes};
    memset(info, 0, sizeof *info);
    info->size = (uint32_t)sizeof *info;
    if (!bytes)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "bytes is NULL");
    get_head(&r, info);
    for (uint32_t i = 0; i < info->param_count && !r.status; i++) {
        memset(&params[i], 0, sizeof params[i]);
        get_param(&r, info->mode, i, &params[i]);
        if (!r.status)
            check_aliases(&r, params, i);
    }
    if (!r.status && r.at != size_bytes)
        refuse(&r, r.at, "%" PRIu64 " bytes follow the last parameter", size_bytes - r.at);
    if (r.status)
        return r.status;
    ddisp__hash hash = ddisp__hash_bytes(bytes, size_bytes);
    memcpy(info->hash, &hash, sizeof info->hash);
    return DDISP_STATUS_OK;
}

ddisp_status ddisp_signature_decode(const uint8_t *bytes, uint64_t size_bytes,
                                    ddisp_signature_info *out_info)
{
    ddisp_signature_info info;
    ddisp_signature_param params[DDISP_MAX_PARAMS];
    ddisp_status status = decode(bytes, size_bytes, &info, params);
    return status ? status
                  : ddisp__struct_write("out_info", out_info, sizeof info, sizeof info, &info);
}

ddisp_status ddisp_signature_decode_param(const uint8_t *bytes, uint64_t size_bytes, uint32_t index,
                                          ddisp_signature_param *out_param)
{
    ddisp_signature_info info;
    ddisp_signature_param params[DDISP_MAX_PARAMS];
    ddisp_status status = decode(bytes, size_bytes, &info, params);
    if (status)
        return status;
    if (index >= info.param_count)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "index is %u, the signature has %u parameters", index, info.param_count);
    return ddisp__struct_write("out_param", out_param, sizeof *out_param, sizeof *out_param,
                               &params[index]);
}

/* ---- text */

static const char *layout_name(uint32_t layout, bool overlaps)
{
    if (layout == DDISP_LAYOUT_DENSE)
        return "dense";
    if (layout == DDISP_LAYOUT_BROADCAST)
        return "broadcast";
    return overlaps ? "strided, overlapping" : "strided";
}

__attribute__((format(printf, 2, 3))) static void append(ddisp__bytes *text, const char *format,
                                                         ...)
{
    char line[160];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length > 0)
        ddisp__bytes_put(text, line,
                         (size_t)length < sizeof line ? (uint64_t)length : sizeof line - 1);
}

static void append_head(ddisp__bytes *text, const ddisp_signature_info *info)
{
    append(text,
           "%s on %s:%s, vendor 0x%x, device 0x%x, driver %u, features 0x%" PRIx64 ", kernel ",
           info->mode == DDISP_MODE_BACKWARD ? "backward" : "forward", info->backend,
           info->architecture, info->vendor_id, info->device_id, info->driver_id, info->features);
    for (uint32_t i = 0; i < sizeof info->kernel; i++)
        append(text, "%02x", info->kernel[i]);
    append(text, ", flags 0x%" PRIx64 "%s", info->flags,
           info->deterministic ? ", deterministic" : "");
}

static void append_write_modes(ddisp__bytes *text, uint32_t modes)
{
    static const char *const names[] = {"atomic add", "plain add", "store once", "reads back",
                                        "unknown"};
    const char *between = " by ";
    for (uint32_t m = 0; m <= DDISP_WRITE_MODE_UNKNOWN; m++) {
        if (!(modes >> m & 1))
            continue;
        append(text, "%s%s", between, names[m]);
        between = " or ";
    }
}

static void append_param(ddisp__bytes *text, const ddisp_signature_param *p, uint32_t index)
{
    static const char *const access[] = {"", "in", "out", "inout"};
    append(text, "\n  %u %s %s", index, access[p->access], ddisp_dtype_name(p->dtype));
    if (p->kind == DDISP_PARAM_KIND_SCALAR) {
        append(text, " scalar");
        return;
    }
    append(text, "[%u] %s", p->rank,
           layout_name(p->layout, (p->flags & DDISP_SIGNATURE_OVERLAPS) != 0));
    if (p->alignment > 1)
        append(text, ", aligned to %u", p->alignment);
    if (p->alias)
        append(text, ", data of %u", p->alias - 1);
    if (p->flags & DDISP_SIGNATURE_REQUIRES_GRAD)
        append(text, ", requires grad %s %s", ddisp_dtype_name(p->add_dtype),
               layout_name(p->add_layout, (p->flags & DDISP_SIGNATURE_ADD_OVERLAPS) != 0));
    else if (p->flags & DDISP_SIGNATURE_HAS_ADD)
        append(text, ", frozen, policy %s", ddisp_policy_name(p->policy));
    append_write_modes(text, p->write_modes);
    if (p->add_alias)
        append(text, ", gradient of %u", p->add_alias - 1);
    if (p->flags & DDISP_SIGNATURE_UPSTREAM)
        append(text, ", upstream %s %s", ddisp_dtype_name(p->read_dtype),
               layout_name(p->read_layout, (p->flags & DDISP_SIGNATURE_READ_OVERLAPS) != 0));
    else if (p->flags & DDISP_SIGNATURE_HAS_READ)
        append(text, ", upstream absent");
}

ddisp_status ddisp_signature_format(const uint8_t *bytes, uint64_t size_bytes, char *buffer,
                                    uint64_t capacity, uint64_t *out_length)
{
    ddisp_signature_info info;
    ddisp_signature_param params[DDISP_MAX_PARAMS];
    ddisp_status status = decode(bytes, size_bytes, &info, params);
    if (status)
        return status;
    ddisp__bytes text = {.context = NULL};
    append_head(&text, &info);
    for (uint32_t i = 0; i < info.param_count; i++)
        append_param(&text, &params[i], i);
    ddisp__bytes_put(&text, "", 1);
    status = text.failed ? ddisp__fail(DDISP_STATUS_OUT_OF_MEMORY, "no memory for a text")
                         : ddisp__text_write((const char *)text.data, buffer, capacity, out_length);
    ddisp__bytes_clear(&text);
    return status;
}
