/*
 * linear.c - y = 2 a + b, with an entry per gradient mask, and null-safe.
 */
#include "cts_host.h"

#include "linear.ptx.h"
#if CTS_HAVE_SPIRV
#include "linear_forward.spv.h"
#include "linear_backward.spv.h"
#include "linear_backward_cas.spv.h"
#endif

static const ddisp_param linear_params[] = {
    DDISP_PARAM("a", DDISP_ACCESS_IN, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("b", DDISP_ACCESS_IN, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
};

HOST(linear_forward)
{
    for (ITEMS(i)) {
        DATA(float, 2, i) = 2 * DATA(float, 0, i) + DATA(float, 1, i);
    }
}

static inline void grad(const ddisp_block *block, uint64_t begin, uint64_t end, bool a, bool b)
{
    for (ITEMS(i)) {
        float g = UPSTREAM(float, 2, i);
        if (a)
            add_grad(block, 0, i, 2 * g);
        if (b)
            add_grad(block, 1, i, g);
    }
}

HOST(linear_backward)
{
    grad(block, begin, end, HAS_ADD(0), HAS_ADD(1));
}

HOST(linear_backward_a)
{
    grad(block, begin, end, true, false);
}

HOST(linear_backward_b)
{
    grad(block, begin, end, false, true);
}

static const ddisp_entry linear_host[] = {
    CTS_FORWARD(3u, linear_forward),
    CTS_BACKWARD_MASKED(3u, linear_backward_a, 5),
    CTS_BACKWARD_MASKED(3u, linear_backward_b, 6),
    CTS_BACKWARD(3u, linear_backward),
};

CTS_SOURCE(linear, NULL, 0, DDISP_CODE_NULL_SAFE | DDISP_CODE_ANY_LAYOUT, DDISP_ENTRY_LOOPS);
