/*
 * mixed_grad.c - the main job: the backward launch of y = a * b with every mixture of inputs that
 * require a gradient and frozen ones, under every policy, on every device of the machine.
 *
 * Each row launches once, with gradients that start empty, and compares status, backings, gradients
 * and memory with what the design says. A gradient is one product, rounded once, so it may be off
 * the double reference by a relative 2^-23 (and by 1.2e-38, where a device flushes denormals). The
 * exit status is 0 only if every row is right.
 */
#include "mul_kernel.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    uint64_t n;
    uint64_t seed;
    const char *device; /* NULL: all */
    const char *policy; /* NULL: all */
    bool json;
};

/* What each policy gives the slot of a frozen input; `mul` specializes on every backend. */
static const struct {
    ddisp_policy policy;
    ddisp_backing frozen;
} policies[] = {
    {DDISP_POLICY_AUTO, DDISP_BACKING_OMITTED},    {DDISP_POLICY_SPECIALIZE, DDISP_BACKING_OMITTED},
    {DDISP_POLICY_GUARD, DDISP_BACKING_NULL},      {DDISP_POLICY_SINK, DDISP_BACKING_SINK},
    {DDISP_POLICY_SCRATCH, DDISP_BACKING_SCRATCH}, {DDISP_POLICY_REJECT, DDISP_BACKING_NONE},
};
enum { POLICY_COUNT = sizeof policies / sizeof policies[0] };

/* Host data of all devices: the inputs, indexed by MUL_A and MUL_B, and the upstream gradient. */
struct data {
    uint64_t n, size_bytes;
    float *input[2];
    float *upstream;
    float *result; /* what is read back */
};

/* What the rows of a device share. */
struct setup {
    ddisp_device *device;
    ddisp_device_info info;
    ddisp_kernel *kernel;
    ddisp_report *report;
    ddisp_tensor *tensor[MUL_PARAM_COUNT];
    ddisp_tensor *upstream;
};

struct row {
    ddisp_policy policy;
    ddisp_backing frozen; /* expected */
    bool grad[2];
    ddisp_status status;
    ddisp_error error;
    ddisp_backing backing[2];
    const char *gradient[2]; /* "ok", "none" or "wrong" */
    uint64_t extra_bytes;
    bool launched;
    ddisp_skip skip;
};

static bool ok(ddisp_status status, const char *what)
{
    char message[512];
    if (status == DDISP_STATUS_OK)
        return true;
    ddisp_last_error(message, sizeof message, NULL);
    fprintf(stderr, "mixed_grad: %s: %s: %s\n", what, ddisp_status_name(status), message);
    return false;
}

/* Uniform in [-1, 1), exact in f32: the upper 24 bits of splitmix64. */
static float random_float(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    x ^= x >> 31;
    return (float)((int32_t)(x >> 40) - (1 << 23)) / (float)(1 << 23);
}

static bool data_make(struct data *data, const struct options *options)
{
    float **arrays[] = {&data->input[MUL_A], &data->input[MUL_B], &data->upstream, &data->result};
    uint64_t state = options->seed;

    data->n = options->n;
    data->size_bytes = options->n * sizeof(float);
    for (int i = 0; i < 4; i++) {
        float *values = *arrays[i] = malloc(data->size_bytes);
        if (!values) {
            fprintf(stderr, "mixed_grad: out of host memory for %" PRIu64 " elements\n", data->n);
            return false;
        }
        for (uint64_t k = 0; k < data->n; k++)
            values[k] = random_float(&state);
    }
    return true;
}

static void data_free(struct data *data)
{
    free(data->input[MUL_A]);
    free(data->input[MUL_B]);
    free(data->upstream);
    free(data->result);
}

/* True when result holds x * y, element by element. */
static bool is_product(const struct data *data, const char *what, const float *x, const float *y)
{
    for (uint64_t i = 0; i < data->n; i++) {
        const double wanted = (double)x[i] * (double)y[i];
        const double got = (double)data->result[i];
        if (fabs(got - wanted) <= fabs(wanted) * 0x1p-23 + 1.2e-38)
            continue;
        fprintf(stderr, "mixed_grad: %s[%" PRIu64 "] is %.9g, expected %.9g\n", what, i, got,
                wanted);
        return false;
    }
    return true;
}

/* Makes tensors, fills them, and checks the forward launch. */
static bool setup_tensors(struct setup *on, const struct data *data)
{
    const int64_t shape[1] = {(int64_t)data->n};
    for (int i = 0; i < MUL_PARAM_COUNT; i++)
        if (!ok(ddisp_tensor_create(on->device, DDISP_DTYPE_F32, 1, shape,
                                    i == MUL_Y ? DDISP_TENSOR_REQUIRES_GRAD : 0, &on->tensor[i]),
                "tensor"))
            return false;
    if (!ok(ddisp_tensor_create(on->device, DDISP_DTYPE_F32, 1, shape, 0, &on->upstream), "tensor"))
        return false;
    for (int i = 0; i < 2; i++)
        if (!ok(ddisp_tensor_write(on->tensor[i], data->input[i], data->size_bytes, NULL), "write"))
            return false;
    if (!ok(ddisp_tensor_write(on->upstream, data->upstream, data->size_bytes, NULL), "write"))
        return false;

    const ddisp_arg args[MUL_PARAM_COUNT] = {
        DDISP_ARG(on->tensor[MUL_A]), DDISP_ARG(on->tensor[MUL_B]), DDISP_ARG(on->tensor[MUL_Y])};
    return ok(ddisp_launch(on->kernel, DDISP_MODE_FORWARD, args, MUL_PARAM_COUNT, NULL, NULL),
              "forward launch") &&
           ok(ddisp_tensor_read(on->tensor[MUL_Y], data->result, data->size_bytes, NULL), "read") &&
           is_product(data, "y", data->input[MUL_A], data->input[MUL_B]);
}

static void setup_release(struct setup *on)
{
    for (int i = 0; i < MUL_PARAM_COUNT; i++)
        ddisp_tensor_release(on->tensor[i]);
    ddisp_tensor_release(on->upstream);
    ddisp_report_release(on->report);
    ddisp_kernel_release(on->kernel);
    ddisp_device_release(on->device);
}

/* State of an input's gradient after the launch, in a word. */
static const char *gradient_word(const struct setup *on, const struct data *data, int which,
                                 bool grad)
{
    ddisp_tensor *gradient = NULL;
    ddisp_tensor_info info = DDISP_ZERO;
    info.size = (uint32_t)sizeof info;

    if (!ok(ddisp_tensor_get_info(on->tensor[which], &info), "tensor"))
        return "wrong";
    if (!grad) {
        const ddisp_status status = ddisp_tensor_grad(on->tensor[which], &gradient);
        ddisp_tensor_release(gradient);
        return status == DDISP_STATUS_NO_GRADIENT && info.grad_state == DDISP_GRAD_STATE_NONE
                   ? "none"
                   : "wrong";
    }
    if (info.grad_state == DDISP_GRAD_STATE_EMPTY)
        return "none";
    if (!ok(ddisp_tensor_grad(on->tensor[which], &gradient), "gradient"))
        return "wrong";
    const bool right =
        ok(ddisp_tensor_read(gradient, data->result, data->size_bytes, NULL), "read") &&
        is_product(data, which == MUL_A ? "gradient of a" : "gradient of b", data->upstream,
                   data->input[which == MUL_A ? MUL_B : MUL_A]);
    ddisp_tensor_release(gradient);
    return right ? "ok" : "wrong";
}

/* Launches once and notes what happened. False only when the row could not be tried. */
static bool row_run(const struct setup *on, const struct data *data, struct row *row)
{
    ddisp_arg args[MUL_PARAM_COUNT] = {DDISP_ARG(on->tensor[MUL_A]), DDISP_ARG(on->tensor[MUL_B]),
                                       DDISP_ARG(on->tensor[MUL_Y])};
    ddisp_launch_options options = DDISP_ZERO;
    ddisp_report_info info = DDISP_ZERO;

    for (int i = 0; i < 2; i++)
        if (!ok(ddisp_tensor_set_requires_grad(on->tensor[i], 0), "requires_grad") ||
            !ok(ddisp_tensor_set_requires_grad(on->tensor[i], row->grad[i]), "requires_grad"))
            return false;
    if (!ok(ddisp_tensor_set_grad(on->tensor[MUL_Y], on->upstream), "upstream"))
        return false;

    row->error.size = (uint32_t)sizeof row->error;
    options.size = (uint32_t)sizeof options;
    options.policy = row->policy;
    options.error = &row->error;
    options.report = on->report;
    row->status =
        ddisp_launch(on->kernel, DDISP_MODE_BACKWARD, args, MUL_PARAM_COUNT, &options, NULL);

    info.size = (uint32_t)sizeof info;
    if (!ok(ddisp_report_get_info(on->report, &info), "report"))
        return false;
    row->extra_bytes = info.extra_bytes;
    row->launched = info.launched;
    row->skip = info.skip;
    for (uint32_t i = 0; i < info.slot_count; i++) {
        ddisp_report_slot slot = DDISP_ZERO;
        slot.size = (uint32_t)sizeof slot;
        if (!ok(ddisp_report_get_slot(on->report, i, &slot), "report"))
            return false;
        if (slot.is_add && slot.param < 2)
            row->backing[slot.param] = slot.backing;
    }
    for (int i = 0; i < 2; i++)
        row->gradient[i] = gradient_word(on, data, i, row->grad[i]);
    return true;
}

/* A sink takes at most this much, whatever the inputs' sizes. */
#define SINK_BYTES (UINT64_C(8) << 20)

/* What a row with a frozen input is refused with, or OK. */
static ddisp_status refusal(const struct row *row, const struct setup *on)
{
    if (row->policy == DDISP_POLICY_REJECT)
        return DDISP_STATUS_GRADIENT_REJECTED;
    if (row->policy == DDISP_POLICY_SINK && strcmp(on->info.sink, "none") == 0 &&
        (row->grad[0] || row->grad[1]))
        return DDISP_STATUS_UNSUPPORTED;
    return DDISP_STATUS_OK;
}

/* Whether the row is what the design says. */
static bool row_right(const struct row *row, const struct setup *on, const struct data *data)
{
    const bool any_frozen = !row->grad[0] || !row->grad[1];
    const ddisp_status refused = any_frozen ? refusal(row, on) : DDISP_STATUS_OK;
    const bool rejected = refused != DDISP_STATUS_OK;
    const bool launched = !rejected && (row->grad[0] || row->grad[1]);
    uint64_t extra_bytes = 0;

    if (row->status != refused)
        return false;
    if (refused == DDISP_STATUS_GRADIENT_REJECTED) {
        const int32_t named = row->error.argument;
        if (named < 0 || named > 1 || row->grad[named] ||
            !strstr(row->error.message, named == MUL_A ? "'a'" : "'b'"))
            return false;
    }
    if (row->launched != launched ||
        (!launched && !rejected && row->skip != DDISP_SKIP_NO_GRADIENT))
        return false;
    for (int i = 0; i < 2; i++) {
        const ddisp_backing backing = !launched      ? DDISP_BACKING_NONE
                                      : row->grad[i] ? DDISP_BACKING_REAL
                                                     : row->frozen;
        if (row->backing[i] != backing ||
            strcmp(row->gradient[i], launched && row->grad[i] ? "ok" : "none") != 0)
            return false;
        if (backing == DDISP_BACKING_SCRATCH)
            extra_bytes += data->size_bytes;
    }
    if (row->policy == DDISP_POLICY_SINK)
        return row->extra_bytes <= SINK_BYTES;
    return row->extra_bytes == extra_bytes;
}

static const char *row_reason(const struct row *row)
{
    if (row->launched)
        return "yes";
    switch (row->skip) {
    case DDISP_SKIP_NO_GRADIENT:
        return "no: no input requires a gradient";
    case DDISP_SKIP_FAILED:
        return row->status == DDISP_STATUS_GRADIENT_REJECTED ||
                       row->status == DDISP_STATUS_UNSUPPORTED
                   ? "no: refused"
                   : "no: failed";
    default:
        return "no";
    }
}

static void row_print(const struct row *row, const struct setup *on, bool right, bool json)
{
    static const char *const words[2] = {"frozen", "grad"};
    if (json)
        printf("{\"backend\": \"%s\", \"device\": \"%s\", \"policy\": \"%s\", \"a\": \"%s\", "
               "\"b\": \"%s\", \"status\": \"%s\", \"backing_a\": \"%s\", \"backing_b\": \"%s\", "
               "\"grad_a\": \"%s\", \"grad_b\": \"%s\", \"extra_bytes\": %" PRIu64
               ", \"launched\": %s}\n",
               on->info.backend, on->info.spec, ddisp_policy_name(row->policy), words[row->grad[0]],
               words[row->grad[1]], ddisp_status_name(row->status),
               ddisp_backing_name(row->backing[0]), ddisp_backing_name(row->backing[1]),
               row->gradient[0], row->gradient[1], row->extra_bytes,
               row->launched ? "true" : "false");
    else
        printf("%-10s %-10s %-6s %-6s %-17s %-8s %-8s %-5s %-5s %11" PRIu64 "  %-32s %s\n",
               on->info.spec, ddisp_policy_name(row->policy), words[row->grad[0]],
               words[row->grad[1]], ddisp_status_name(row->status) + strlen("DDISP_STATUS_"),
               ddisp_backing_name(row->backing[0]), ddisp_backing_name(row->backing[1]),
               row->gradient[0], row->gradient[1], row->extra_bytes, row_reason(row),
               right ? "right" : "WRONG");
    if (!right && row->error.message[0])
        fprintf(stderr, "mixed_grad: %s: %s\n", on->info.spec, row->error.message);
}

/* All rows of one device. Counts those that are not right. */
static bool device_run(ddisp_context *context, const char *spec, const struct data *data,
                       const struct options *options, uint32_t *wrong)
{
    struct setup on = {.info = {.size = sizeof on.info}};
    bool done = false;

    if (!ok(ddisp_device_open(context, spec, &on.device), spec) ||
        !ok(ddisp_device_get_info(on.device, &on.info), spec) ||
        !ok(ddisp_kernel_create(context, mul_kernel_desc(), &on.kernel), "kernel") ||
        !ok(ddisp_report_create(context, &on.report), "report") || !setup_tensors(&on, data))
        goto out;

    for (int p = 0; p < POLICY_COUNT; p++) {
        if (options->policy && strcmp(options->policy, ddisp_policy_name(policies[p].policy)) != 0)
            continue;
        for (int frozen = 0; frozen < 4; frozen++) {
            struct row row = {.policy = policies[p].policy,
                              .frozen = policies[p].frozen,
                              .grad = {!(frozen & 2), !(frozen & 1)}};
            if (!row_run(&on, data, &row))
                goto out;
            const bool right = row_right(&row, &on, data);
            *wrong += !right;
            row_print(&row, &on, right, options->json);
        }
    }

    /* The upstream gradient is the caller's: it was only read. */
    if (!ok(ddisp_tensor_read(on.upstream, data->result, data->size_bytes, NULL), "read"))
        goto out;
    done = memcmp(data->result, data->upstream, data->size_bytes) == 0;
    if (!done)
        fprintf(stderr, "mixed_grad: %s: the upstream gradient was written\n", on.info.spec);
out:
    setup_release(&on);
    return done;
}

/* The device asked for, or all but stand-ins. */
static bool devices_run(ddisp_context *context, const struct data *data,
                        const struct options *options, uint32_t *wrong)
{
    uint32_t count = 0, tried = 0;
    bool done = true;

    if (options->device)
        return device_run(context, options->device, data, options, wrong);
    if (!ok(ddisp_device_count(context, &count), "devices"))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        ddisp_device_info info = DDISP_ZERO;
        info.size = (uint32_t)sizeof info;
        if (!ok(ddisp_device_describe(context, i, &info), "device"))
            return false;
        if (info.flags & DDISP_DEVICE_FLAG_FAKE)
            continue;
        tried++;
        done = device_run(context, info.spec, data, options, wrong) && done;
    }
    if (!tried)
        fprintf(stderr, "mixed_grad: no device; ddisp-info says why\n");
    return done && tried;
}

static const char usage[] =
    "usage: mixed_grad [--n N] [--seed S] [--device D] [--policy P] [--json] [N]\n"
    "  N  elements, default 4194304\n"
    "  D  such as host, cuda:0, vulkan:0; default: all\n"
    "  P  auto, specialize, guard, sink, scratch or reject; default: all\n";

static bool number(const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && !*end && !errno;
}

static bool policy_known(const char *name)
{
    for (int p = 0; p < POLICY_COUNT; p++)
        if (strcmp(name, ddisp_policy_name(policies[p].policy)) == 0)
            return true;
    return false;
}

static bool options_parse(int count, char **words, struct options *options)
{
    static const struct option names[] = {
        {"n", required_argument, NULL, 'n'},      {"seed", required_argument, NULL, 's'},
        {"device", required_argument, NULL, 'd'}, {"policy", required_argument, NULL, 'p'},
        {"json", no_argument, NULL, 'j'},         {NULL, 0, NULL, 0}};
    bool good = true;
    int name;

    while (good && (name = getopt_long(count, words, "", names, NULL)) != -1) {
        if (name == 'n')
            good = number(optarg, &options->n);
        else if (name == 's')
            good = number(optarg, &options->seed);
        else if (name == 'd')
            options->device = optarg;
        else if (name == 'p')
            good = policy_known(options->policy = optarg);
        else if (name == 'j')
            options->json = true;
        else
            good = false;
    }
    if (good && optind < count)
        good = number(words[optind++], &options->n);
    return good && optind == count && options->n > 0 && options->n <= UINT64_C(1) << 40;
}

int main(int count, char **words)
{
    struct options options = {.n = UINT64_C(4) << 20, .seed = 1};
    struct data data = {0};
    ddisp_context *context = NULL;
    uint32_t wrong = 0;
    bool done = false;

    if (!options_parse(count, words, &options)) {
        fputs(usage, stderr);
        return 2;
    }
    if (!options.json)
        printf("%-10s %-10s %-6s %-6s %-17s %-8s %-8s %-5s %-5s %11s  %s\n", "device", "policy",
               "a", "b", "status", "slot a", "slot b", "ga", "gb", "extra bytes", "launched");
    if (data_make(&data, &options) && ok(ddisp_context_create(NULL, &context), "context"))
        done = devices_run(context, &data, &options, &wrong);
    ddisp_context_release(context);
    data_free(&data);
    if (wrong)
        fprintf(stderr, "mixed_grad: %" PRIu32 " rows are not what the design says\n", wrong);
    return done && !wrong ? 0 : 1;
}
