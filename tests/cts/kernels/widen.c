/*
 * widen.c - y = (double)x: the upstream is f64, the gradient f32. Opaque.
 */
#include "cts_host.h"

#include "widen.ptx.h"
#if CTS_HAVE_SPIRV
#include "widen_forward.spv.h"
#include "widen_backward.spv.h"
#include "widen_backward_cas.spv.h"
#endif

static const ddisp_param widen_params[] = {
    DDISP_PARAM("x", DDISP_ACCESS_IN, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F64, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
};

HOST(widen_forward)
{
    for (ITEMS(i)) {
        DATA(double, 1, i) = DATA(float, 0, i);
    }
}

HOST(widen_backward)
{
    for (ITEMS(i)) {
        add_grad(block, 0, i, (float)UPSTREAM(double, 1, i));
    }
}

static const ddisp_entry widen_host[] = {
    CTS_FORWARD(9u, widen_forward),
    CTS_BACKWARD(9u, widen_backward),
};

CTS_SOURCE(widen, NULL, 0, DDISP_CODE_ANY_LAYOUT, 0);
