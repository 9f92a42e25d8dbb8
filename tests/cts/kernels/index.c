/*
 * index.c - y = v * n with an integer n that has no gradient, opaque.
 */
#include "cts_host.h"

#include "index.ptx.h"
#if CTS_HAVE_SPIRV
#include "index_forward.spv.h"
#include "index_backward.spv.h"
#include "index_backward_cas.spv.h"
#endif

static const ddisp_param index_params[] = {
    DDISP_PARAM("v", DDISP_ACCESS_IN, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("n", DDISP_ACCESS_IN, DDISP_DTYPE_I32, DDISP_RANK_ANY, 0),
    DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
};

HOST(index_forward)
{
    for (ITEMS(i)) {
        DATA(float, 2, i) = DATA(float, 0, i) * (float)DATA(int32_t, 1, i);
    }
}

HOST(index_backward)
{
    for (ITEMS(i)) {
        add_grad(block, 0, i, UPSTREAM(float, 2, i) * (float)DATA(int32_t, 1, i));
    }
}

static const ddisp_entry index_host[] = {
    CTS_FORWARD(7u, index_forward),
    CTS_BACKWARD(7u, index_backward),
};

CTS_SOURCE(index, NULL, 0, DDISP_CODE_ANY_LAYOUT, 0);
