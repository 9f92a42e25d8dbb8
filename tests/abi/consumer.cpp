/*
 * A program outside the tree, in C++17 through diffdispatch.hpp, with exceptions and without: opens
 * the host device of the installed library and runs y = a * b backward with b frozen. Prints
 * "consumer ok" and exits 0 when the gradient is right.
 */
#include <diffdispatch/device/ddisp_block.h>
#include <diffdispatch/diffdispatch.hpp>

#include <array>
#include <cstdio>

namespace dd = diffdispatch;

#ifdef DDISP_NO_EXCEPTIONS
#define GET(call) (call).value()
#define DO(call)                                                                                   \
    if (!(call))                                                                                   \
    return std::fprintf(stderr, "%s: %s\n", #call, dd::last_error_message().c_str()), 1
#else
#define GET(call) (call)
#define DO(call)  (call)
#endif

static void mul_backward(const ddisp_block *block, uint64_t begin, uint64_t end)
{
    const auto at = [block](uint64_t ddisp_device_tensor::*address, int i) {
        return reinterpret_cast<float *>(
            static_cast<uintptr_t>(DDISP_BLOCK_TENSOR(block, i)->*address));
    };
    float *const a_grad = at(&ddisp_device_tensor::grad_add, 0);
    for (uint64_t i = begin; i < end && a_grad; i++)
        a_grad[i] +=
            at(&ddisp_device_tensor::grad_read, 2)[i] * at(&ddisp_device_tensor::data, 1)[i];
}

int main()
{
    const ddisp_param params[] = {
        DDISP_PARAM("a", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
        DDISP_PARAM("b", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
        DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
    };
    const ddisp_entry entries[] = {
        DDISP_ENTRY_FUNCTION_MASKED(DDISP_MODE_BACKWARD, mul_backward, 1, 5)};
    const ddisp_code codes[] = {DDISP_CODE("host", "host-function", nullptr, 0, entries, 0)};

    const dd::context context = GET(dd::context::create());
    const dd::device device = GET(context.open("host"));
    const dd::kernel kernel = GET(dd::kernel::create(context, "mul", params, codes));
    const dd::tensor a =
        GET(dd::tensor::create(device, DDISP_DTYPE_F32, {4}, DDISP_TENSOR_REQUIRES_GRAD));
    const dd::tensor b = GET(dd::tensor::create(device, DDISP_DTYPE_F32, {4}));
    const dd::tensor y =
        GET(dd::tensor::create(device, DDISP_DTYPE_F32, {4}, DDISP_TENSOR_REQUIRES_GRAD));
    const dd::tensor upstream = GET(dd::tensor::create(device, DDISP_DTYPE_F32, {4}));
    const std::array<float, 4> b_values = {{5, 6, 7, 8}};
    std::array<float, 4> got = {{0, 0, 0, 0}};

    DO(a.fill(1));
    DO(b.write(b_values));
    DO(upstream.fill(1));
    DO(y.set_grad(upstream));
    DO(kernel.backward(a, b, y));
    const dd::tensor grad = GET(a.grad());
    DO(grad.read(got));
    for (std::size_t i = 0; i < 4; i++)
        if (got[i] < b_values[i] || got[i] > b_values[i]) {
            std::fprintf(stderr, "gradient of a at %zu is %g, not %g\n", i, double(got[i]),
                         double(b_values[i]));
            return 1;
        }
    std::printf("consumer ok\n");
    return 0;
}
