/*
 * pair_opaque.c - p = 2 x, q = 3 x, opaque: reads both upstreams and touches the gradient.
 */
#include "cts_host.h"

#include "pair_opaque.ptx.h"
#if CTS_HAVE_SPIRV
#include "pair_opaque_forward.spv.h"
#include "pair_opaque_backward.spv.h"
#include "pair_opaque_backward_cas.spv.h"
#endif

static const ddisp_param pair_opaque_params[] = {
    DDISP_PARAM("x", DDISP_ACCESS_IN, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("p", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("q", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
};

HOST(pair_opaque_forward)
{
    for (ITEMS(i)) {
        DATA(float, 1, i) = 2 * DATA(float, 0, i);
        DATA(float, 2, i) = 3 * DATA(float, 0, i);
    }
}

HOST(pair_opaque_backward)
{
    for (ITEMS(i)) {
        add_grad(block, 0, i, 2 * UPSTREAM(float, 1, i) + 3 * UPSTREAM(float, 2, i));
    }
}

static const ddisp_entry pair_opaque_host[] = {
    CTS_FORWARD(12u, pair_opaque_forward),
    CTS_BACKWARD(12u, pair_opaque_backward),
};

CTS_SOURCE(pair_opaque, NULL, 0, DDISP_CODE_ANY_LAYOUT, 0);
