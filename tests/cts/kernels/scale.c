/*
 * scale.c - y = k * x with a scalar k, opaque.
 */
#include "cts_host.h"

#include "scale.ptx.h"
#if CTS_HAVE_SPIRV
#include "scale_forward.spv.h"
#include "scale_backward.spv.h"
#include "scale_backward_cas.spv.h"
#endif

static const ddisp_param scale_params[] = {
    DDISP_PARAM("x", DDISP_ACCESS_IN, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM_SCALAR("k", DDISP_DTYPE_F32),
    DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
};

HOST(scale_forward)
{
    for (ITEMS(i)) {
        DATA(float, 1, i) = scalar_f32(block, 0) * DATA(float, 0, i);
    }
}

HOST(scale_backward)
{
    for (ITEMS(i)) {
        add_grad(block, 0, i, scalar_f32(block, 0) * UPSTREAM(float, 1, i));
    }
}

static const ddisp_entry scale_host[] = {
    CTS_FORWARD(6u, scale_forward),
    CTS_BACKWARD(6u, scale_backward),
};

CTS_SOURCE(scale, NULL, 0, DDISP_CODE_ANY_LAYOUT, 0);
