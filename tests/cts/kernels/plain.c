/*
 * plain.c - y = 2 a + b whose backward adds without atomics: load, add, store. Null-safe.
 */
#include "cts_host.h"

#include "plain.ptx.h"
#if CTS_HAVE_SPIRV
#include "plain_forward.spv.h"
#include "plain_backward.spv.h"
#include "plain_backward_cas.spv.h"
#endif

static const ddisp_param plain_params[] = {
    DDISP_PARAM("a", DDISP_ACCESS_IN, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("b", DDISP_ACCESS_IN, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
};

static const ddisp_code_param plain_writes[] = {
    {0, DDISP_WRITE_MODE_PLAIN_ADD, DDISP_DTYPE_ANY, 0, 0, 0, 0, 0},
    {1, DDISP_WRITE_MODE_PLAIN_ADD, DDISP_DTYPE_ANY, 0, 0, 0, 0, 0},
};

HOST(plain_forward)
{
    for (ITEMS(i)) {
        DATA(float, 2, i) = 2 * DATA(float, 0, i) + DATA(float, 1, i);
    }
}

HOST(plain_backward)
{
    for (ITEMS(i)) {
        float g = UPSTREAM(float, 2, i);
        if (HAS_ADD(0))
            GRADIENT(float, 0, i) += 2 * g;
        if (HAS_ADD(1))
            GRADIENT(float, 1, i) += g;
    }
}

static const ddisp_entry plain_host[] = {
    CTS_FORWARD(15u, plain_forward),
    CTS_BACKWARD(15u, plain_backward),
};

CTS_SOURCE(plain, plain_writes, 2, DDISP_CODE_NULL_SAFE | DDISP_CODE_ANY_LAYOUT, 0);
