/*
 * mul_opaque.c - y = a * b, opaque: touches both gradients whatever they are.
 */
#include "cts_host.h"

#include "mul_opaque.ptx.h"
#if CTS_HAVE_SPIRV
#include "mul_opaque_forward.spv.h"
#include "mul_opaque_backward.spv.h"
#include "mul_opaque_backward_cas.spv.h"
#endif

static const ddisp_param mul_opaque_params[] = {
    DDISP_PARAM("a", DDISP_ACCESS_IN, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("b", DDISP_ACCESS_IN, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
};

HOST(mul_opaque_forward)
{
    for (ITEMS(i)) {
        DATA(float, 2, i) = DATA(float, 0, i) * DATA(float, 1, i);
    }
}

HOST(mul_opaque_backward)
{
    for (ITEMS(i)) {
        float g = UPSTREAM(float, 2, i);
        add_grad(block, 0, i, g * DATA(float, 1, i));
        add_grad(block, 1, i, g * DATA(float, 0, i));
    }
}

static const ddisp_entry mul_opaque_host[] = {
    CTS_FORWARD(2u, mul_opaque_forward),
    CTS_BACKWARD(2u, mul_opaque_backward),
};

CTS_SOURCE(mul_opaque, NULL, 0, DDISP_CODE_ANY_LAYOUT, 0);
