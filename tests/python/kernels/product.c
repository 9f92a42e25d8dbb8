/*
 * product.c - y = a * b on f32 or f64, whose backward stores every element of a gradient once.
 */
#include "cts_host.h"

#include "product.ptx.h"
#if CTS_HAVE_SPIRV
#include "product_backward.spv.h"
#include "product_backward_cas.spv.h"
#include "product_forward.spv.h"
#endif

static const ddisp_param product_params[] = {
    DDISP_PARAM("a", DDISP_ACCESS_IN, DDISP_DTYPE_ANY, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("b", DDISP_ACCESS_IN, DDISP_DTYPE_ANY, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_ANY, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
};

static bool wide(const ddisp_block *block)
{
    return tensor(block, 0)->dtype == DDISP_DTYPE_F64;
}

HOST(product_forward)
{
    for (ITEMS(i)) {
        if (wide(block))
            DATA(double, 2, i) = DATA(double, 0, i) * DATA(double, 1, i);
        else
            DATA(float, 2, i) = DATA(float, 0, i) * DATA(float, 1, i);
    }
}

HOST(product_backward)
{
    for (ITEMS(i)) {
        for (uint32_t p = 0; p < 2; p++) {
            if (!HAS_ADD(p))
                continue;
            if (wide(block))
                GRADIENT(double, p, i) = UPSTREAM(double, 2, i) * DATA(double, 1 - p, i);
            else
                GRADIENT(float, p, i) = UPSTREAM(float, 2, i) * DATA(float, 1 - p, i);
        }
    }
}

static const ddisp_entry product_host[] = {
    CTS_FORWARD(32u, product_forward),
    CTS_BACKWARD(32u, product_backward),
};

static const ddisp_code_param product_once[] = {
    {0, DDISP_WRITE_MODE_STORE_ONCE, 0, 0, 0, 0, 0, 0},
    {1, DDISP_WRITE_MODE_STORE_ONCE, 0, 0, 0, 0, 0, 0},
};

CTS_SOURCE(product, product_once, 2, DDISP_CODE_NULL_SAFE | DDISP_CODE_ANY_LAYOUT, 0);
