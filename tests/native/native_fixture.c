/*
 * native_fixture.c - see native_fixture.h.
 */
#include "native_fixture.h"

#include <stdlib.h>

const char *native_spec = "vulkan";

static char unavailable[1024];

int native_open(void **state)
{
    static native_fixture f;
    memset(&f, 0, sizeof f);
    *state = &f;
    NATIVE_OK(ddisp_context_create(NULL, &f.context));
    ddisp_status status = ddisp_device_open(f.context, native_spec, &f.device);
    if (status == DDISP_STATUS_BACKEND_UNAVAILABLE || status == DDISP_STATUS_NOT_FOUND) {
        (void)ddisp_last_error(unavailable, sizeof unavailable, NULL);
        return 0;
    }
    NATIVE_OK(status);
    f.info.size = (uint32_t)sizeof f.info;
    NATIVE_OK(ddisp_device_get_info(f.device, &f.info));
    return 0;
}

int native_close(void **state)
{
    native_fixture *f = *state;
    ddisp_device_release(f->device);
    ddisp_context_release(f->context);
    return 0;
}

native_fixture *native_of(void **state)
{
    native_fixture *f = *state;
    if (!f->device) {
        print_message("# skipped: %s\n", unavailable);
        skip();
    }
    return f;
}

void native_fails(ddisp_status status, ddisp_status expected, const char *call,
                  const char *const *texts, const char *file, int line)
{
    char message[1024] = "";
    (void)ddisp_last_error(message, sizeof message, NULL);
    if (status != expected) {
        print_error("# %s:%d: %s gave %s, not %s: %s\n", file, line, call,
                    ddisp_status_name(status), ddisp_status_name(expected), message);
        fail();
    }
    for (; texts && *texts; texts++)
        if (!strstr(message, *texts)) {
            print_error("# %s:%d: no '%s' in: %s\n", file, line, *texts, message);
            fail();
        }
}

ddisp_status native_kernel(const native_fixture *f, const native_code *code,
                           ddisp_kernel **out_kernel)
{
    uint32_t group = code->group ? code->group : 64;
    ddisp_entry forward[1] = {DDISP_ENTRY(DDISP_MODE_FORWARD, "main", group)};
    ddisp_entry backward[1] = {DDISP_ENTRY(DDISP_MODE_BACKWARD, "main", group)};
    forward[0].flags = backward[0].flags = code->entry_flags;
    forward[0].native = code->forward_args;
    forward[0].native_count = code->forward_count;
    backward[0].native = code->backward_args;
    backward[0].native_count = code->backward_count;
    ddisp_code codes[2];
    uint32_t count = 0;
    if (code->forward)
        codes[count++] = (ddisp_code)DDISP_CODE("vulkan", "spirv", code->forward,
                                                code->forward_bytes, forward, code->flags);
    if (code->backward)
        codes[count++] = (ddisp_code)DDISP_CODE("vulkan", "spirv", code->backward,
                                                code->backward_bytes, backward, code->flags);
    ddisp_kernel_desc desc = DDISP_ZERO;
    desc.size = (uint32_t)sizeof desc;
    desc.name = "existing";
    desc.params = code->params;
    desc.param_count = code->param_count;
    desc.param_size = (uint32_t)sizeof *code->params;
    desc.codes = codes;
    desc.code_count = count;
    desc.code_size = (uint32_t)sizeof codes[0];
    return ddisp_kernel_create(f->context, &desc, out_kernel);
}

ddisp_tensor *native_vector(const native_fixture *f, int64_t n, uint64_t flags, const float *values)
{
    ddisp_tensor *tensor = NULL;
    NATIVE_OK(ddisp_tensor_create(f->device, DDISP_DTYPE_F32, 1, &n, flags, &tensor));
    if (values)
        NATIVE_OK(ddisp_tensor_write(tensor, values, (uint64_t)n * sizeof *values, NULL));
    return tensor;
}

void native_values(ddisp_tensor *tensor, const float *expected, int64_t n)
{
    float *values = malloc((size_t)n * sizeof *values);
    assert_non_null(values);
    NATIVE_OK(ddisp_tensor_read(tensor, values, (uint64_t)n * sizeof *values, NULL));
    for (int64_t i = 0; i < n; i++)
        if (values[i] != expected[i]) {
            print_error("# element %lld is %g, not %g\n", (long long)i, (double)values[i],
                        (double)expected[i]);
            free(values);
            fail();
        }
    free(values);
}

void native_gradient(ddisp_tensor *tensor, const float *expected, int64_t n)
{
    ddisp_tensor *gradient = NULL;
    NATIVE_OK(ddisp_tensor_grad(tensor, &gradient));
    native_values(gradient, expected, n);
    ddisp_tensor_release(gradient);
}

void native_seed(const native_fixture *f, ddisp_tensor *tensor, int64_t n)
{
    float *ones = malloc((size_t)n * sizeof *ones);
    assert_non_null(ones);
    for (int64_t i = 0; i < n; i++)
        ones[i] = 1;
    ddisp_tensor *seed = native_vector(f, n, 0, ones);
    free(ones);
    NATIVE_OK(ddisp_tensor_set_grad(tensor, seed));
    ddisp_tensor_release(seed);
}

ddisp_backing native_backing(const ddisp_report *report, uint32_t param, uint64_t *out_bytes)
{
    ddisp_report_info info = DDISP_ZERO;
    info.size = (uint32_t)sizeof info;
    NATIVE_OK(ddisp_report_get_info(report, &info));
    for (uint32_t i = 0; i < info.slot_count; i++) {
        ddisp_report_slot slot = DDISP_ZERO;
        slot.size = (uint32_t)sizeof slot;
        NATIVE_OK(ddisp_report_get_slot(report, i, &slot));
        if (slot.param == param && slot.is_add) {
            *out_bytes = slot.bytes;
            return slot.backing;
        }
    }
    fail_msg("no add slot of parameter %u", param);
    return DDISP_BACKING_NONE;
}
