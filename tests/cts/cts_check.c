/*
 * cts_check.c - the fixture's comparisons: statuses with their messages, elements of tensors and
 * gradients as doubles; and its short ways to launch and to read reports.
 */
#include "cts.h"

#include <math.h>
#include <stdlib.h>

_Noreturn void cts_fail(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    char message[1200];
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    printf("# %s:%d: %s\n", file, line, message);
    _fail(file, line);
    abort(); /* not reached */
}

void cts_ok(ddisp_status status, const char *call, const char *file, int line)
{
    if (status == DDISP_STATUS_OK)
        return;
    char message[1024] = "";
    (void)ddisp_last_error(message, sizeof message, NULL);
    cts_fail(file, line, "%s: %s: %s", call, ddisp_status_name(status), message);
}

void cts_fails(ddisp_status status, ddisp_status expected, const char *call, const char *file,
               int line, const char *const *texts)
{
    ddisp_error error = DDISP_ZERO;
    error.size = (uint32_t)sizeof error;
    (void)ddisp_last_error_detail(&error);
    if (status != expected)
        cts_fail(file, line, "%s: %s instead of %s: %s", call, ddisp_status_name(status),
                 ddisp_status_name(expected), status ? error.message : "");
    if (error.status != expected || !error.message[0])
        cts_fail(file, line, "%s: returned %s, but the last error is %s: '%s'", call,
                 ddisp_status_name(status), ddisp_status_name(error.status), error.message);
    for (; *texts; texts++)
        if (!strstr(error.message, *texts))
            cts_fail(file, line, "%s: message lacks \"%s\": %s", call, *texts, error.message);
}

/* ---- tensors */

ddisp_tensor_info cts_tensor_info(ddisp_tensor *tensor)
{
    ddisp_tensor_info info = DDISP_ZERO;
    info.size = (uint32_t)sizeof info;
    CTS_OK(ddisp_tensor_get_info(tensor, &info));
    return info;
}

uint64_t cts_address(ddisp_tensor *tensor)
{
    return cts_tensor_info(tensor).address;
}

int64_t cts_offset(ddisp_tensor *tensor)
{
    ddisp_tensor_info info = cts_tensor_info(tensor);
    int64_t before = 0;
    for (uint32_t d = 0; d < info.rank; d++)
        if (info.strides[d] < 0)
            before -= (info.shape[d] - 1) * info.strides[d];
    return (int64_t)CTS_GUARD / ddisp_dtype_size(info.dtype) + before;
}

static double f16(uint16_t bits)
{
    int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
    double value = exponent == 0    ? ldexp(mantissa, -24)
                   : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                    : ldexp(mantissa + 1024, exponent - 25);
    return bits & 0x8000 ? -value : value;
}

double cts_from_half(ddisp_dtype dtype, uint16_t bits)
{
    if (dtype == DDISP_DTYPE_F16)
        return f16(bits);
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static double element(ddisp_dtype dtype, const void *data, size_t i)
{
    switch (dtype) {
    case DDISP_DTYPE_F16:
    case DDISP_DTYPE_BF16:
        return cts_from_half(dtype, ((const uint16_t *)data)[i]);
    case DDISP_DTYPE_F32:
        return ((const float *)data)[i];
    case DDISP_DTYPE_F64:
        return ((const double *)data)[i];
    case DDISP_DTYPE_I32:
        return ((const int32_t *)data)[i];
    case DDISP_DTYPE_U8:
        return ((const uint8_t *)data)[i];
    default:
        cts_fail(__FILE__, __LINE__, "dtype %u is not read here", dtype);
    }
}

void cts_read(ddisp_tensor *tensor, double *values, size_t count)
{
    ddisp_tensor_info info = cts_tensor_info(tensor);
    uint64_t size = (uint64_t)info.numel * ddisp_dtype_size(info.dtype);
    CTS_CHECK((uint64_t)info.numel == count, "the tensor has %lld elements instead of %zu",
              (long long)info.numel, count);
    void *data = malloc(size + 1);
    assert_non_null(data);
    ddisp_status status = ddisp_tensor_read(tensor, data, size, NULL);
    for (size_t i = 0; i < count && !status; i++)
        values[i] = element(info.dtype, data, i);
    free(data);
    CTS_OK(status);
}

void cts_values(ddisp_tensor *tensor, const double *expected, size_t count, const char *what,
                const char *file, int line)
{
    double *values = calloc(count + 1, sizeof *values);
    assert_non_null(values);
    cts_read(tensor, values, count);
    size_t wrong = count;
    for (size_t i = count; i-- > 0;)
        if (!(values[i] == expected[i]))
            wrong = i;
    double value = wrong < count ? values[wrong] : 0;
    free(values);
    if (wrong < count)
        cts_fail(file, line, "%s: element %zu is %.9g instead of %.9g", what, wrong, value,
                 expected[wrong]);
}

void cts_gradient(ddisp_tensor *tensor, const double *expected, size_t count, const char *what,
                  const char *file, int line)
{
    ddisp_tensor *gradient = NULL;
    uint32_t state = cts_tensor_info(tensor).grad_state;
    if (state != DDISP_GRAD_STATE_PRESENT)
        cts_fail(file, line, "%s: gradient state is %u, not present", what, state);
    cts_ok(ddisp_tensor_grad(tensor, &gradient), what, file, line);
    char name[200];
    (void)snprintf(name, sizeof name, "gradient of %s", what);
    cts_values(gradient, expected, count, name, file, line);
    ddisp_tensor_release(gradient);
}

void cts_no_gradient(ddisp_tensor *tensor, const char *what, const char *file, int line)
{
    ddisp_tensor *gradient = tensor; /* anything but NULL */
    uint32_t state = cts_tensor_info(tensor).grad_state;
    if (state != DDISP_GRAD_STATE_NONE)
        cts_fail(file, line, "%s: gradient state is %u, not none", what, state);
    ddisp_status status = ddisp_tensor_grad(tensor, &gradient);
    if (status != DDISP_STATUS_NO_GRADIENT || gradient)
        cts_fail(file, line, "%s: asking for its gradient gives %s and %s", what,
                 ddisp_status_name(status), gradient ? "a tensor" : "NULL");
}

/* ---- launches and reports */

ddisp_launch_options cts_options(ddisp_policy policy, uint64_t flags, ddisp_report *report)
{
    ddisp_launch_options options = DDISP_ZERO;
    options.size = (uint32_t)sizeof options;
    options.policy = policy;
    options.flags = flags;
    options.report = report;
    return options;
}

ddisp_status cts_launch(ddisp_kernel *kernel, ddisp_mode mode, ddisp_tensor *const *tensors,
                        uint32_t count, const ddisp_launch_options *options)
{
    ddisp_arg args[8] = DDISP_ZERO;
    assert_true(count <= 8);
    for (uint32_t i = 0; i < count; i++)
        args[i].tensor = tensors[i];
    return ddisp_launch(kernel, mode, args, count, options, NULL);
}

ddisp_report_info cts_report_info(const ddisp_report *report)
{
    ddisp_report_info info = DDISP_ZERO;
    info.size = (uint32_t)sizeof info;
    CTS_OK(ddisp_report_get_info(report, &info));
    return info;
}

ddisp_report_slot cts_slot(const ddisp_report *report, uint32_t param, bool is_add)
{
    uint32_t count = cts_report_info(report).slot_count;
    for (uint32_t i = 0; i < count; i++) {
        ddisp_report_slot slot = DDISP_ZERO;
        slot.size = (uint32_t)sizeof slot;
        CTS_OK(ddisp_report_get_slot(report, i, &slot));
        if (slot.param == param && !!slot.is_add == is_add)
            return slot;
    }
    cts_fail(__FILE__, __LINE__, "the report has no %s slot of parameter %u",
             is_add ? "add" : "read", param);
}
