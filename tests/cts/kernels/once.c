/*
 * once.c - y = 2 x whose backward stores 2 g once into every element, by plain store. Null-safe.
 */
#include "cts_host.h"

#include "once.ptx.h"
#if CTS_HAVE_SPIRV
#include "once_forward.spv.h"
#include "once_backward.spv.h"
#include "once_backward_cas.spv.h"
#endif

static const ddisp_param once_params[] = {
    DDISP_PARAM("x", DDISP_ACCESS_IN, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
};

static const ddisp_code_param once_writes[] = {
    {0, DDISP_WRITE_MODE_STORE_ONCE, DDISP_DTYPE_ANY, 0, 0, 0, 0, 0},
};

HOST(once_forward)
{
    for (ITEMS(i)) {
        DATA(float, 1, i) = 2 * DATA(float, 0, i);
    }
}

HOST(once_backward)
{
    for (ITEMS(i)) {
        if (HAS_ADD(0))
            GRADIENT(float, 0, i) = 2 * UPSTREAM(float, 1, i);
    }
}

static const ddisp_entry once_host[] = {
    CTS_FORWARD(14u, once_forward),
    CTS_BACKWARD(14u, once_backward),
};

CTS_SOURCE(once, once_writes, 1, DDISP_CODE_NULL_SAFE | DDISP_CODE_ANY_LAYOUT, 0);
