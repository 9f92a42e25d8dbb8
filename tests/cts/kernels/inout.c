/*
 * inout.c - x *= k in place, opaque. Backward reads the gradient of the new x and adds to that of
 * the old.
 */
#include "cts_host.h"

#include "inout.ptx.h"
#if CTS_HAVE_SPIRV
#include "inout_forward.spv.h"
#include "inout_backward.spv.h"
#include "inout_backward_cas.spv.h"
#endif

static const ddisp_param inout_params[] = {
    DDISP_PARAM("x", DDISP_ACCESS_INOUT, DDISP_DTYPE_F32, DDISP_RANK_ANY,
                DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM_SCALAR("k", DDISP_DTYPE_F32),
};

HOST(inout_forward)
{
    for (ITEMS(i)) {
        DATA(float, 0, i) *= scalar_f32(block, 0);
    }
}

HOST(inout_backward)
{
    for (ITEMS(i)) {
        add_grad(block, 0, i, scalar_f32(block, 0) * UPSTREAM(float, 0, i));
    }
}

static const ddisp_entry inout_host[] = {
    CTS_FORWARD(8u, inout_forward),
    CTS_BACKWARD(8u, inout_backward),
};

CTS_SOURCE(inout, NULL, 0, DDISP_CODE_ANY_LAYOUT, 0);
