/*
 * component.c - y = v.x * s for rows v of three: writes one component of a gradient, and sums into
 * one cell.
 */
#include "cts_host.h"

#include "component.ptx.h"
#if CTS_HAVE_SPIRV
#include "component_forward.spv.h"
#include "component_backward.spv.h"
#include "component_backward_cas.spv.h"
#endif

static const ddisp_param component_params[] = {
    DDISP_PARAM("v", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 2, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("s", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, 1, DDISP_PARAM_DIFFERENTIABLE),
};

HOST(component_forward)
{
    for (ITEMS(i)) {
        DATA(float, 2, i) = DATA(float, 0, 3 * i) * DATA(float, 1, 0);
    }
}

static inline void grad(const ddisp_block *block, uint64_t begin, uint64_t end, bool v, bool s)
{
    for (ITEMS(i)) {
        float g = UPSTREAM(float, 2, i);
        if (v)
            add_grad(block, 0, 3 * i, g * DATA(float, 1, 0));
        if (s)
            add_grad(block, 1, 0, g * DATA(float, 0, 3 * i));
    }
}

HOST(component_backward)
{
    grad(block, begin, end, HAS_ADD(0), HAS_ADD(1));
}

HOST(component_backward_v)
{
    grad(block, begin, end, true, false);
}

HOST(component_backward_s)
{
    grad(block, begin, end, false, true);
}

static const ddisp_entry component_host[] = {
    CTS_FORWARD(4u, component_forward),
    CTS_BACKWARD_MASKED(4u, component_backward_v, 5),
    CTS_BACKWARD_MASKED(4u, component_backward_s, 6),
    CTS_BACKWARD(4u, component_backward),
};

CTS_SOURCE(component, NULL, 0, DDISP_CODE_NULL_SAFE | DDISP_CODE_ANY_LAYOUT, DDISP_ENTRY_LOOPS);
