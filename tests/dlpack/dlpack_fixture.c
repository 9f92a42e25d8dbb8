/*
 * dlpack_fixture.c - the host device, a kernel on it, and tensors that another library offers.
 */
#include "dlpack_spec.h"

#include <diffdispatch/device/ddisp_block.h>

static int64_t place(const ddisp_device_tensor *tensor, const int64_t *strides, uint64_t item)
{
    int64_t at = 0;
    for (uint32_t d = tensor->rank; d-- > 0;) {
        at += (int64_t)(item % (uint64_t)tensor->shape[d]) * strides[d];
        item /= (uint64_t)tensor->shape[d];
    }
    return at;
}

static void forward(const struct ddisp_block *block, uint64_t begin, uint64_t end)
{
    const ddisp_device_tensor *x = DDISP_BLOCK_TENSOR(block, 0), *y = DDISP_BLOCK_TENSOR(block, 1);
    for (uint64_t i = begin; i < end; i++) {
        float value = ((const float *)(uintptr_t)x->data)[place(x, x->stride, i)];
        ((float *)(uintptr_t)y->data)[place(y, y->stride, i)] = value * value;
    }
}

static void backward(const struct ddisp_block *block, uint64_t begin, uint64_t end)
{
    const ddisp_device_tensor *x = DDISP_BLOCK_TENSOR(block, 0), *y = DDISP_BLOCK_TENSOR(block, 1);
    for (uint64_t i = begin; i < end; i++)
        ((float *)(uintptr_t)x->grad_add)[place(x, x->add_stride, i)] +=
            2 * ((const float *)(uintptr_t)x->data)[place(x, x->stride, i)] *
            ((const float *)(uintptr_t)y->grad_read)[place(y, y->read_stride, i)];
}

static ddisp_status make_square(ddisp_context *context, ddisp_kernel **out_kernel)
{
    const ddisp_param params[] = {
        DDISP_PARAM("x", DDISP_ACCESS_IN, DDISP_DTYPE_F32, DDISP_RANK_ANY,
                    DDISP_PARAM_DIFFERENTIABLE),
        DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, DDISP_RANK_ANY,
                    DDISP_PARAM_DIFFERENTIABLE),
    };
    const ddisp_entry entries[] = {
        DDISP_ENTRY_FUNCTION(DDISP_MODE_FORWARD, forward, 1),
        DDISP_ENTRY_FUNCTION(DDISP_MODE_BACKWARD, backward, 2),
    };
    const ddisp_code code =
        DDISP_CODE("host", "host-function", NULL, 0, entries, DDISP_CODE_ANY_LAYOUT);
    ddisp_kernel_desc desc = DDISP_ZERO;
    desc.size = (uint32_t)sizeof desc;
    desc.name = "square";
    desc.params = params;
    desc.param_count = 2;
    desc.param_size = sizeof params[0];
    desc.codes = &code;
    desc.code_count = 1;
    desc.code_size = sizeof code;
    return ddisp_kernel_create(context, &desc, out_kernel);
}

int host_setup(void **state)
{
    static struct host_fixture fixture;
    fixture = (struct host_fixture){NULL, NULL, NULL};
    atomic_store(&deleted, 0);
    *state = &fixture;
    return ddisp_context_create(NULL, &fixture.context) ||
           ddisp_device_open(fixture.context, "host", &fixture.device) ||
           make_square(fixture.context, &fixture.square);
}

int host_teardown(void **state)
{
    struct host_fixture *fixture = *state;
    ddisp_kernel_release(fixture->square);
    ddisp_device_release(fixture->device);
    ddisp_context_release(fixture->context);
    return 0;
}

atomic_int deleted;

static void count_plain(struct DLManagedTensor *self)
{
    (void)self;
    atomic_fetch_add(&deleted, 1);
}

static void count_versioned(struct DLManagedTensorVersioned *self)
{
    (void)self;
    atomic_fetch_add(&deleted, 1);
}

void offer_floats(struct offer *offer, float *data, int64_t count)
{
    *offer = (struct offer){.shape = {count}, .strides = {1}};
    struct spec_tensor tensor = {.data = data,
                                 .device = {1, 0},
                                 .ndim = 1,
                                 .dtype = {SPEC_FLOAT, 32, 1},
                                 .shape = offer->shape,
                                 .strides = offer->strides};
    offer->plain.dl_tensor = offer->versioned.dl_tensor = tensor;
    offer->plain.deleter = count_plain;
    offer->versioned.deleter = count_versioned;
    offer->versioned.version.major = 1;
}

void read_floats(ddisp_tensor *tensor, float *values, uint64_t count)
{
    assert_ok(ddisp_tensor_read(tensor, values, count * sizeof *values, NULL));
}

ddisp_status square(struct host_fixture *fixture, ddisp_mode mode, ddisp_tensor *x, ddisp_tensor *y)
{
    const ddisp_arg args[] = {DDISP_ARG(x), DDISP_ARG(y)};
    return ddisp_launch(fixture->square, mode, args, 2, NULL, NULL);
}
