/*
 * mul_guarded.c - y = a * b, without entries per mask, but null-safe.
 */
#include "cts_host.h"

#include "mul_guarded.ptx.h"
#if CTS_HAVE_SPIRV
#include "mul_guarded_forward.spv.h"
#include "mul_guarded_backward.spv.h"
#include "mul_guarded_backward_cas.spv.h"
#endif

static const ddisp_param mul_guarded_params[] = {
    DDISP_PARAM("a", DDISP_ACCESS_IN, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("b", DDISP_ACCESS_IN, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
};

HOST(mul_guarded_forward)
{
    for (ITEMS(i)) {
        DATA(float, 2, i) = DATA(float, 0, i) * DATA(float, 1, i);
    }
}

HOST(mul_guarded_backward)
{
    for (ITEMS(i)) {
        float g = UPSTREAM(float, 2, i);
        if (HAS_ADD(0))
            add_grad(block, 0, i, g * DATA(float, 1, i));
        if (HAS_ADD(1))
            add_grad(block, 1, i, g * DATA(float, 0, i));
    }
}

static const ddisp_entry mul_guarded_host[] = {
    CTS_FORWARD(13u, mul_guarded_forward),
    CTS_BACKWARD(13u, mul_guarded_backward),
};

CTS_SOURCE(mul_guarded, NULL, 0, DDISP_CODE_NULL_SAFE | DDISP_CODE_ANY_LAYOUT, 0);
