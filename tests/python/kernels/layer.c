/*
 * layer.c - y = tanh(x w^T + b), a layer of a network: x [n,k], w [m,k], b [m], y [n,m]. Its
 * backward reads the values of y.
 */
#include "cts_host.h"

#include <math.h>

#include "layer.ptx.h"
#if CTS_HAVE_SPIRV
#include "layer_backward.spv.h"
#include "layer_backward_cas.spv.h"
#include "layer_forward.spv.h"
#endif

static const ddisp_param layer_params[] = {
    DDISP_PARAM("x", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 2, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("w", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 2, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("b", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, 2, DDISP_PARAM_DIFFERENTIABLE),
};

HOST(layer_forward)
{
    uint64_t width = (uint64_t)tensor(block, 0)->shape[1], m = (uint64_t)tensor(block, 1)->shape[0];
    for (ITEMS(i)) {
        uint64_t row = i / m, column = i % m;
        float sum = DATA(float, 2, column);
        for (uint64_t k = 0; k < width; k++)
            sum += DATA(float, 0, row *width + k) * DATA(float, 1, column *width + k);
        DATA(float, 3, i) = tanhf(sum);
    }
}

HOST(layer_backward)
{
    uint64_t width = (uint64_t)tensor(block, 0)->shape[1], m = (uint64_t)tensor(block, 1)->shape[0];
    for (ITEMS(i)) {
        uint64_t row = i / m, column = i % m;
        float y = DATA(float, 3, i), g = UPSTREAM(float, 3, i) * (1 - y * y);
        if (HAS_ADD(2))
            add_grad(block, 2, column, g);
        for (uint64_t k = 0; k < width; k++) {
            uint64_t at = row * width + k, weight = column * width + k;
            if (HAS_ADD(0))
                add_grad(block, 0, at, g * DATA(float, 1, weight));
            if (HAS_ADD(1))
                add_grad(block, 1, weight, g * DATA(float, 0, at));
        }
    }
}

static const ddisp_entry layer_host[] = {
    CTS_FORWARD(34u, layer_forward),
    CTS_BACKWARD(34u, layer_backward),
};

CTS_SOURCE(layer, NULL, 0, DDISP_CODE_NULL_SAFE | DDISP_CODE_ANY_LAYOUT, 0);
