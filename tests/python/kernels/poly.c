/*
 * poly.c - y = c[0] + c[1] x + c[2] x^2 + ...: every element adds to the few cells of c's gradient.
 */
#include "cts_host.h"

#include "poly.ptx.h"
#if CTS_HAVE_SPIRV
#include "poly_backward.spv.h"
#include "poly_backward_cas.spv.h"
#include "poly_forward.spv.h"
#endif

static const ddisp_param poly_params[] = {
    DDISP_PARAM("x", DDISP_ACCESS_IN, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("c", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
};

HOST(poly_forward)
{
    int64_t degree = tensor(block, 1)->shape[0] - 1;
    for (ITEMS(i)) {
        float x = DATA(float, 0, i), y = 0;
        for (int64_t k = degree; k >= 0; k--)
            y = y * x + DATA(float, 1, (uint64_t)k);
        DATA(float, 2, i) = y;
    }
}

HOST(poly_backward)
{
    int64_t degree = tensor(block, 1)->shape[0] - 1;
    for (ITEMS(i)) {
        float x = DATA(float, 0, i), g = UPSTREAM(float, 2, i), slope = 0;
        for (int64_t k = degree; k >= 1; k--)
            slope = slope * x + (float)k * DATA(float, 1, (uint64_t)k);
        if (HAS_ADD(0))
            add_grad(block, 0, i, g * slope);
        for (int64_t k = 0; HAS_ADD(1) && k <= degree; k++, g *= x)
            add_grad(block, 1, (uint64_t)k, g);
    }
}

static const ddisp_entry poly_host[] = {
    CTS_FORWARD(33u, poly_forward),
    CTS_BACKWARD(33u, poly_backward),
};

CTS_SOURCE(poly, NULL, 0, DDISP_CODE_NULL_SAFE | DDISP_CODE_ANY_LAYOUT, 0);
