/*
 * kernels.c - the other kernels of the tests of the device headers, for the host; twins of those in
 * kernels.cu, where they are explained.
 */
#include <diffdispatch/device/ddisp_host.h>

#define GATHER(type)                                                                               \
    DDISP_KERNEL(gather_##type##_forward, 3, 3)                                                    \
    {                                                                                              \
        ddisp_tensor_##type table = DDISP_TENSOR(type, 0), y = DDISP_TENSOR(type, 2);              \
        ddisp_tensor_i32 index = DDISP_TENSOR(i32, 1);                                             \
        DDISP_FOR_EACH_ITEM(i)                                                                     \
        {                                                                                          \
            ddisp_store(y, i, ddisp_load(table, (uint64_t)ddisp_load(index, i)));                  \
        }                                                                                          \
    }                                                                                              \
    DDISP_KERNEL(gather_##type##_backward, 3, 3)                                                   \
    {                                                                                              \
        ddisp_tensor_##type table = DDISP_TENSOR(type, 0), y = DDISP_TENSOR(type, 2);              \
        ddisp_tensor_i32 index = DDISP_TENSOR(i32, 1);                                             \
        const int how = DDISP_SCALAR(i32, 3);                                                      \
        const uint32_t modulus = DDISP_SCALAR(u32, 4), rest = DDISP_SCALAR(u32, 5);                \
        DDISP_FOR_EACH_ITEM(i)                                                                     \
        {                                                                                          \
            if (i % modulus == rest)                                                               \
                ddisp_add_grad(table, (uint64_t)ddisp_load(index, i), ddisp_grad(y, i), how);      \
        }                                                                                          \
    }
GATHER(f32)
GATHER(f64)
GATHER(f16)
GATHER(bf16)

DDISP_KERNEL(rows_forward, 3)
{
    ddisp_tensor_float m = DDISP_TENSOR(float, 0), v = DDISP_TENSOR(float, 1),
                       y = DDISP_TENSOR(float, 2);
    DDISP_FOR_EACH_ITEM(r)
    {
        float sum = 0;
        for (uint64_t c = 0; c < (uint64_t)ddisp_shape(m, 1); c++)
            sum += ddisp_load(m, ddisp_at(r, c)) * ddisp_load(v, ddisp_at(c));
        ddisp_store(y, ddisp_at(r), sum);
    }
}
DDISP_KERNEL(rows_backward, 3)
{
    ddisp_tensor_float m = DDISP_TENSOR(float, 0), v = DDISP_TENSOR(float, 1),
                       y = DDISP_TENSOR(float, 2);
    DDISP_FOR_EACH_ITEM(r)
    {
        const float g = ddisp_grad(y, ddisp_at(r));
        for (uint64_t c = 0; c < (uint64_t)ddisp_shape(m, 1); c++) {
            ddisp_add_grad(m, ddisp_at(r, c), g * ddisp_load(v, ddisp_at(c)));
            ddisp_add_grad(v, ddisp_at(c), g * ddisp_load(m, ddisp_at(r, c)));
        }
    }
}

DDISP_KERNEL(order_forward, 2, 2)
{
    ddisp_tensor_float x = DDISP_TENSOR_AT(float, 0, 0), y = DDISP_TENSOR_AT(float, 2, 1);
    const double k = DDISP_SCALAR_AT(double, 0);
    const int64_t m = DDISP_SCALAR_AT(i64, 1);
    DDISP_FOR_EACH_ITEM(i)
    {
        ddisp_store(y, i, (float)(k * (double)ddisp_load(x, i) + (double)m));
    }
}
DDISP_KERNEL(order_backward, 2, 2)
{
    ddisp_tensor_float x = DDISP_TENSOR_AT(float, 0, 0), y = DDISP_TENSOR_AT(float, 2, 1);
    const double k = DDISP_SCALAR_AT(double, 0);
    DDISP_FOR_EACH_ITEM(i)
    {
        ddisp_add_grad(x, i, (float)(k * (double)ddisp_grad(y, i)));
    }
}

#define EACH(X) X(0) X(5) X(11)
DDISP_KERNEL(many_forward, 13)
{
    ddisp_tensor_float y = DDISP_TENSOR(float, 12);
#define LOAD(k) sum += (k + 1) * ddisp_load(DDISP_TENSOR(float, k), i);
    DDISP_FOR_EACH_ITEM(i)
    {
        float sum = 0;
        EACH(LOAD)
        ddisp_store(y, i, sum);
    }
}
DDISP_KERNEL(many_backward, 13)
{
    ddisp_tensor_float y = DDISP_TENSOR(float, 12);
#define ADD(k) ddisp_add_grad(DDISP_TENSOR(float, k), i, (k + 1) * g);
    DDISP_FOR_EACH_ITEM(i)
    {
        const float g = ddisp_grad(y, i);
        EACH(ADD)
    }
}

#define REPLAY(type)                                                                               \
    DDISP_KERNEL(replay_inner_##type, 2)                                                           \
    {                                                                                              \
        ddisp_tensor_##type x = DDISP_TENSOR(type, 0), y = DDISP_TENSOR(type, 1);                  \
        DDISP_FOR_EACH_ITEM(i)                                                                     \
        {                                                                                          \
            ddisp_add_grad(x, i % (uint64_t)ddisp_numel(x), ddisp_grad(y, i));                     \
        }                                                                                          \
    }                                                                                              \
    void replay_##type(const struct ddisp_block *, uint64_t, uint64_t);                            \
    void replay_##type(const struct ddisp_block *given, uint64_t begin, uint64_t end)              \
    {                                                                                              \
        replay_inner_##type((const ddisp_block *)(uintptr_t)DDISP_BLOCK_TENSOR(given, 0)->data,    \
                            begin, end);                                                           \
    }
REPLAY(f32)
REPLAY(f64)
REPLAY(f16)
REPLAY(bf16)
