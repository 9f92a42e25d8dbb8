/*
 * device_test.c - runs the tests of the device headers on the devices of one backend: `device
 * BACKEND [TEST]`, each with the newest and with the oldest codes. Prints TAP; a backend without a
 * device is one skip with its reason. Holds the helpers of device_test.h.
 */
#include "device_test.h"

#include <math.h>

/* ---- helpers */

void check_call(ddisp_status status, const char *call, const char *file, int line)
{
    char message[1024] = "";
    if (status == DDISP_STATUS_OK)
        return;
    (void)ddisp_last_error(message, sizeof message, NULL);
    printf("# %s:%d: %s: %s: %s\n", file, line, call, ddisp_status_name(status), message);
    _fail(file, line);
}

ddisp_tensor *make_memory(fixture *f, ddisp_dtype dtype, int64_t count, const void *data)
{
    uint64_t size_bytes = (uint64_t)count * ddisp_dtype_size(dtype);
    ddisp_tensor *tensor = NULL;
    void *zeros = data ? NULL : calloc(1, size_bytes);
    assert_true(f->tensor_count < COUNT(f->tensors) && (data || zeros));
    ddisp_status status = ddisp_tensor_create(f->device, dtype, 1, &count, 0, &tensor);
    if (!status) {
        f->tensors[f->tensor_count++] = tensor;
        status = ddisp_tensor_write(tensor, data ? data : zeros, size_bytes, NULL);
    }
    free(zeros);
    CHECK(status);
    return tensor;
}

static ddisp_tensor_info info_of(ddisp_tensor *memory)
{
    ddisp_tensor_info info = DDISP_ZERO;
    info.size = (uint32_t)sizeof info;
    CHECK(ddisp_tensor_get_info(memory, &info));
    return info;
}

uint64_t address_of(ddisp_tensor *memory)
{
    return info_of(memory).address;
}

void read_memory(ddisp_tensor *memory, void *data, uint64_t size_bytes)
{
    CHECK(ddisp_tensor_read(memory, data, size_bytes, NULL));
}

void describe(operand *o, ddisp_tensor *data, uint32_t rank, const int64_t *shape,
              const int64_t *strides, int64_t offset)
{
    ddisp_tensor_info info = info_of(data);
    ddisp_arg arg = DDISP_ARG_VIEW(&o->view);
    memset(o, 0, sizeof *o);
    o->arg = arg;
    o->view.size = (uint32_t)sizeof o->view;
    o->view.dtype = info.dtype;
    o->view.rank = rank;
    o->view.shape = shape;
    o->view.strides = strides;
    o->view.address = info.address + (uint64_t)offset * ddisp_dtype_size(info.dtype);
}

static uint64_t give(operand *o, ddisp_tensor *memory, int64_t offset)
{
    ddisp_tensor_info info = info_of(memory);
    o->view.grad_dtype = info.dtype;
    return info.address + (uint64_t)offset * ddisp_dtype_size(info.dtype);
}

void give_add(operand *o, ddisp_tensor *memory, const int64_t *strides, int64_t offset)
{
    o->arg.grad_add = give(o, memory, offset);
    o->view.grad_add_strides = strides;
    o->view.flags |= DDISP_VIEW_REQUIRES_GRAD;
}

void give_read(operand *o, ddisp_tensor *memory, const int64_t *strides, int64_t offset)
{
    o->arg.grad_read = give(o, memory, offset);
    o->view.grad_read_strides = strides;
    o->view.flags |= DDISP_VIEW_REQUIRES_GRAD;
}

const ddisp_launch_options *options_of(fixture *f)
{
    static ddisp_launch_options options;
    memset(&options, 0, sizeof options);
    options.size = (uint32_t)sizeof options;
    options.device = f->device;
    return &options;
}

void launch(fixture *f, ddisp_kernel *kernel, ddisp_mode mode, uint32_t count,
            const operand *operands, const ddisp_arg *scalars, uint32_t scalar_count)
{
    ddisp_arg args[16];
    assert_true(count + scalar_count <= COUNT(args));
    for (uint32_t i = 0; i < count; i++)
        args[i] = operands[i].arg;
    for (uint32_t i = 0; i < scalar_count; i++)
        args[count + i] = scalars[i];
    CHECK(ddisp_launch(kernel, mode, args, count + scalar_count, options_of(f), NULL));
}

void forget_memory(fixture *f)
{
    while (f->tensor_count > 0)
        ddisp_tensor_release(f->tensors[--f->tensor_count]);
}

int64_t product(uint32_t rank, const int64_t *shape)
{
    int64_t result = 1;
    for (uint32_t d = 0; d < rank; d++)
        result *= shape[d];
    return result;
}

int64_t place(uint32_t rank, const int64_t *shape, const int64_t *strides, int64_t i)
{
    int64_t result = 0, below = product(rank, shape);
    for (uint32_t d = 0; d < rank; d++) {
        below /= shape[d];
        result += i / below % shape[d] * strides[d];
    }
    return result;
}

uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

void encode(int type, double value, void *element)
{
    float single = (float)value;
    uint32_t bits;
    uint16_t half = 0;
    int exponent = 0;
    switch (type) {
    case F32:
        memcpy(element, &single, sizeof single);
        return;
    case F64:
        memcpy(element, &value, sizeof value);
        return;
    case F16: /* normal numbers and zero */
        if (value != 0) {
            double fraction = frexp(fabs(value), &exponent);
            half = (uint16_t)((value < 0) << 15 | (exponent + 14) << 10 |
                              (uint16_t)(fraction * 2048 - 1024));
        }
        memcpy(element, &half, sizeof half);
        return;
    default:
        memcpy(&bits, &single, sizeof bits);
        half = (uint16_t)(bits >> 16);
        memcpy(element, &half, sizeof half);
    }
}

double decode(ddisp_dtype dtype, const void *element)
{
    uint16_t half;
    uint32_t bits;
    float single;
    double value;
    switch (dtype) {
    case DDISP_DTYPE_F32:
        memcpy(&single, element, sizeof single);
        return (double)single;
    case DDISP_DTYPE_F64:
        memcpy(&value, element, sizeof value);
        return value;
    case DDISP_DTYPE_F16:
        memcpy(&half, element, sizeof half);
        if ((half & 0x7c00) == 0x7c00)
            return half & 0x3ff ? (double)NAN : half & 0x8000 ? -HUGE_VAL : HUGE_VAL;
        value = half & 0x7c00 ? ldexp(1024 + (half & 0x3ff), (half >> 10 & 31) - 25)
                              : ldexp(half & 0x3ff, -24);
        return half & 0x8000 ? -value : value;
    default:
        memcpy(&half, element, sizeof half);
        bits = (uint32_t)half << 16;
        memcpy(&single, &bits, sizeof single);
        return (double)single;
    }
}

/* ---- running */

struct item {
    fixture f;
    test_function run;
    char name[160];
};

static void run(void **state)
{
    struct item *item = *state;
    item->run(&item->f);
}

static int tear_down(void **state)
{
    fixture *f = &((struct item *)*state)->f;
    forget_memory(f);
    for (uint32_t i = 0; i < f->kernel_count; i++)
        ddisp_kernel_release(f->kernels[i]);
    return 0;
}

/* Says why the backend has no device, as a skipped plan. */
static int skip_all(ddisp_context *context, const char *backend)
{
    uint32_t count = 0;
    CHECK(ddisp_backend_count(context, &count));
    for (uint32_t i = 0; i < count; i++) {
        ddisp_backend_info info = DDISP_ZERO;
        info.size = (uint32_t)sizeof info;
        CHECK(ddisp_backend_get_info(context, i, &info));
        if (strcmp(info.name, backend) == 0 && info.status) {
            printf("1..0 # SKIP %s: %s\n", backend, info.reason);
            return 0;
        }
    }
    printf("1..0 # SKIP %s: no device\n", backend);
    return 0;
}

/* The first device of the backend that is none of the tests' stand-ins, or NULL. */
static ddisp_device *open_device(ddisp_context *context, const char *backend)
{
    uint32_t count = 0;
    ddisp_device *device = NULL;
    CHECK(ddisp_device_count(context, &count));
    for (uint32_t i = 0; i < count && !device; i++) {
        ddisp_device_info info = DDISP_ZERO;
        info.size = (uint32_t)sizeof info;
        CHECK(ddisp_device_describe(context, i, &info));
        if (strcmp(info.backend, backend) == 0 && !(info.flags & DDISP_DEVICE_FLAG_FAKE)) {
            CHECK(ddisp_device_open(context, info.spec, &device));
            printf("# %s: %s, %s\n", info.spec, info.name, info.driver);
        }
    }
    return device;
}

int main(int argument_count, char **arguments)
{
    static const test_case *const rooms[] = {index_tests, add_tests, replay_tests};
    static const char *const builds[BUILDS] = {"newest", "common", "oldest"};
    static struct item items[128];
    static struct CMUnitTest tests[128];
    const char *backend = argument_count > 1 ? arguments[1] : "host";
    bool alike = strcmp(backend, "host") == 0; /* one code only */
    ddisp_device_info info = DDISP_ZERO;
    ddisp_context *context = NULL;
    size_t count = 0;

    cmocka_set_message_output(CM_OUTPUT_TAP);
    if (argument_count > 2)
        cmocka_set_test_filter(arguments[2]);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    CHECK(ddisp_context_create(NULL, &context));
    ddisp_device *device = open_device(context, backend);
    if (device && !DEVICE_HAVE_PTX && strcmp(backend, "cuda") == 0) {
        printf("1..0 # SKIP cuda: this was built without nvcc, so the kernels have no PTX\n");
        ddisp_device_release(device);
        ddisp_context_release(context);
        return 0;
    }
    info.size = (uint32_t)sizeof info;
    if (device)
        CHECK(ddisp_device_get_info(device, &info));
    bool special = strcmp(backend, "vulkan") == 0 && info.vendor_id == 0x10de; /* NVIDIA */
    for (uint32_t build = special ? NEWEST : COMMON; build < (alike ? OLDEST : BUILDS); build++)
        for (uint32_t r = 0; r < COUNT(rooms); r++)
            for (const test_case *test = rooms[r]; test->name; test++, count++) {
                struct item *item = &items[count];
                assert_true(count < COUNT(items));
                item->f.context = context;
                item->f.device = device;
                item->f.build = build;
                item->run = test->run;
                (void)snprintf(item->name, sizeof item->name, "%s%s%s %s", backend,
                               alike ? "" : " ", alike ? "" : builds[build], test->name);
                tests[count] = (struct CMUnitTest){item->name, run, NULL, tear_down, item};
            }
    int failures = device ? _cmocka_run_group_tests("device", tests, count, NULL, NULL)
                          : skip_all(context, backend);
    ddisp_device_release(device);
    ddisp_context_release(context);
    return failures ? 1 : 0;
}
