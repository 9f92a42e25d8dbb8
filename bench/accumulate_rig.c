/*
 * accumulate_rig.c - devices with their copies of the data, and the kernel that they are compared
 * with.
 */
#include "accumulate.h"

#include "scatter.ptx.h"
#ifdef WITH_SPIRV
#include "scatter.spv.h"
#endif

/* ---- data */

static uint64_t next(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

ddisp_tensor *make(const rig *on, ddisp_dtype dtype, int64_t n)
{
    ddisp_tensor *tensor;
    CHECK(ddisp_tensor_create(on->device, dtype, 1, &n, 0, &tensor));
    CHECK(ddisp_tensor_fill(tensor, 0, NULL));
    return tensor;
}

static void *host_memory(int64_t n)
{
    void *memory = malloc((size_t)n * 4);
    if (!memory) {
        fprintf(stderr, "accumulate: no memory for %" PRId64 " elements\n", n);
        exit(1);
    }
    return memory;
}

void make_data(setup *s)
{
    float *values = host_memory(s->n);
    uint64_t state = 88172645463325252u;
    for (int64_t i = 0; i < s->n; i++)
        values[i] = (float)(next(&state) >> 40) * 0x1p-23f - 1;
    for (uint32_t k = 0; k < s->rig_count; k++) {
        rig *on = &s->rigs[k];
        on->source[0] = make(on, DDISP_DTYPE_F32, on->n);
        on->source[1] = make(on, DDISP_DTYPE_F16, on->n);
        on->index = make(on, DDISP_DTYPE_I32, on->n);
        CHECK(ddisp_tensor_write(on->source[0], values, (uint64_t)on->n * sizeof *values, NULL));
        CHECK(ddisp_tensor_copy(on->source[1], on->source[0], NULL));
    }
    free(values);
}

void choose_indices(const setup *s, int64_t bins, int64_t run)
{
    int32_t *values = host_memory(s->n);
    uint64_t state = 0x9E3779B97F4A7C15u;
    for (int64_t i = 0; i < s->n; i++)
        values[i] =
            i % run ? values[i - 1] : (int32_t)((next(&state) >> 32) * (uint64_t)bins >> 32);
    for (uint32_t k = 0; k < s->rig_count; k++)
        CHECK(ddisp_tensor_write(s->rigs[k].index, values, (uint64_t)s->rigs[k].n * sizeof *values,
                                 NULL));
    free(values);
}

/* ---- the kernel that adds one element after the other */

ddisp_status launch_plain(const row *it, uint64_t flags)
{
    ddisp_arg args[3] = {DDISP_ARG(it->on->index), DDISP_ARG(it->from), DDISP_ARG(it->to)};
    ddisp_launch_options options = DDISP_ZERO;
    options.size = (uint32_t)sizeof options;
    options.flags = flags;
    options.items[0] = (uint64_t)it->on->n;
    options.items[1] = options.items[2] = 1;
    return ddisp_launch(it->on->plain, DDISP_MODE_FORWARD, args, 3, &options, NULL);
}

static ddisp_kernel *make_plain(const setup *s, const rig *on)
{
    static const ddisp_param params[3] = {
        DDISP_PARAM("index", DDISP_ACCESS_IN, DDISP_DTYPE_I32, 1, 0),
        DDISP_PARAM("source", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, 0),
        DDISP_PARAM("sum", DDISP_ACCESS_INOUT, DDISP_DTYPE_F32, 1, 0),
    };
    static ddisp_entry ptx[1] = {DDISP_ENTRY(DDISP_MODE_FORWARD, "scatter_plain", 256)};
    static ddisp_entry spirv[1] = {DDISP_ENTRY(DDISP_MODE_FORWARD, "main", 256)};
    ptx[0].flags = spirv[0].flags = DDISP_ENTRY_LOOPS;
    const ddisp_code codes[] = {
        DDISP_CODE("cuda", "ptx", scatter_ptx, sizeof scatter_ptx, ptx, 0),
#ifdef WITH_SPIRV
        DDISP_CODE("vulkan", "spirv", scatter_spv, sizeof scatter_spv, spirv, 0),
#endif
    };
    ddisp_kernel_desc desc = DDISP_ZERO;
    ddisp_kernel *kernel;
    if (strcmp(on->info.backend, "host") == 0)
        return NULL;
    desc.size = (uint32_t)sizeof desc;
    desc.name = "scatter_plain";
    desc.params = params;
    desc.param_count = 3;
    desc.param_size = (uint32_t)sizeof params[0];
    desc.codes = codes;
    desc.code_count = (uint32_t)(sizeof codes / sizeof codes[0]);
    desc.code_size = (uint32_t)sizeof codes[0];
    CHECK(ddisp_kernel_create(s->context, &desc, &kernel));
    return kernel;
}

/* ---- devices */

/** Opens one of the names in list; false at its end. What is not there is left out, unless named.
 */
bool open_next(setup *s, const char **list, bool named)
{
    char name[128];
    size_t length = strcspn(*list, ",");
    if (length == 0)
        return false;
    (void)snprintf(name, sizeof name, "%.*s", (int)length, *list);
    *list += length + ((*list)[length] == ',');
    rig *on = &s->rigs[s->rig_count];
    *on = (rig){.info.size = (uint32_t)sizeof on->info, .rows_left = 18 * 3 + DENSE_ROWS};
    ddisp_status status = ddisp_device_open(s->context, name, &on->device);
    if (status != DDISP_STATUS_OK && !named) {
        fprintf(stderr, "no %s device\n", name);
        return true;
    }
    CHECK(status);
    CHECK(ddisp_device_get_info(on->device, &on->info));
    bool software = (on->info.flags & DDISP_DEVICE_FLAG_SOFTWARE) != 0;
    bool host = strcmp(on->info.backend, "host") == 0;
    if (software && !host && !named) {
        fprintf(stderr, "%s is software: name it to measure it\n", on->info.name);
        ddisp_device_release(on->device);
        return true;
    }
    on->n = !software && !host ? s->n : s->n > 16 ? s->n / 16 : 1;
    on->plain = make_plain(s, on);
#ifdef DDISP_EVENT_TIMED
    if (ddisp_event_create(on->device, DDISP_EVENT_TIMED, &on->begin) != DDISP_STATUS_OK ||
        ddisp_event_create(on->device, DDISP_EVENT_TIMED, &on->end) != DDISP_STATUS_OK)
        on->begin = NULL;
#endif
    s->rig_count++;
    return true;
}

void close_rig(rig *on)
{
    if (on->begin)
        ddisp_event_release(on->begin);
    if (on->end)
        ddisp_event_release(on->end);
    for (int i = 0; i < 2; i++)
        ddisp_tensor_release(on->source[i]);
    ddisp_tensor_release(on->index);
    if (on->plain)
        ddisp_kernel_release(on->plain);
    ddisp_device_release(on->device);
}
