/*
 * square.c - y = x * x, null-safe.
 */
#include "cts_host.h"

#include "square.ptx.h"
#if CTS_HAVE_SPIRV
#include "square_forward.spv.h"
#include "square_backward.spv.h"
#include "square_backward_cas.spv.h"
#endif

static const ddisp_param square_params[] = {
    DDISP_PARAM("x", DDISP_ACCESS_IN, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
};

HOST(square_forward)
{
    for (ITEMS(i)) {
        DATA(float, 1, i) = DATA(float, 0, i) * DATA(float, 0, i);
    }
}

HOST(square_backward)
{
    for (ITEMS(i)) {
        if (HAS_ADD(0))
            add_grad(block, 0, i, 2 * UPSTREAM(float, 1, i) * DATA(float, 0, i));
    }
}

static const ddisp_entry square_host[] = {
    CTS_FORWARD(5u, square_forward),
    CTS_BACKWARD(5u, square_backward),
};

CTS_SOURCE(square, NULL, 0, DDISP_CODE_NULL_SAFE | DDISP_CODE_ANY_LAYOUT, 0);
