/*
 * pair.c - p = 2 x, q = 3 x, with an entry per mask of upstreams, and null-safe.
 */
#include "cts_host.h"

#include "pair.ptx.h"
#if CTS_HAVE_SPIRV
#include "pair_forward.spv.h"
#include "pair_backward.spv.h"
#include "pair_backward_cas.spv.h"
#endif

static const ddisp_param pair_params[] = {
    DDISP_PARAM("x", DDISP_ACCESS_IN, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("p", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("q", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
};

HOST(pair_forward)
{
    for (ITEMS(i)) {
        DATA(float, 1, i) = 2 * DATA(float, 0, i);
        DATA(float, 2, i) = 3 * DATA(float, 0, i);
    }
}

static inline void grad(const ddisp_block *block, uint64_t begin, uint64_t end, bool p, bool q)
{
    for (ITEMS(i)) {
        float g = (p ? 2 * UPSTREAM(float, 1, i) : 0) + (q ? 3 * UPSTREAM(float, 2, i) : 0);
        if (HAS_ADD(0))
            add_grad(block, 0, i, g);
    }
}

HOST(pair_backward)
{
    grad(block, begin, end, true, true);
}

HOST(pair_backward_p)
{
    grad(block, begin, end, true, false);
}

HOST(pair_backward_q)
{
    grad(block, begin, end, false, true);
}

static const ddisp_entry pair_host[] = {
    CTS_FORWARD(11u, pair_forward),
    CTS_BACKWARD_MASKED(11u, pair_backward_p, 3),
    CTS_BACKWARD_MASKED(11u, pair_backward_q, 5),
    CTS_BACKWARD(11u, pair_backward),
};

CTS_SOURCE(pair, NULL, 0, DDISP_CODE_NULL_SAFE | DDISP_CODE_ANY_LAYOUT, 0);
