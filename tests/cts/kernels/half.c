/*
 * half.c - y = 2 x with x f16 and its gradient f32. Opaque.
 */
#include "cts_host.h"

#include <math.h>

#include "half.ptx.h"
#if CTS_HAVE_SPIRV
#include "half_forward.spv.h"
#include "half_backward.spv.h"
#include "half_backward_cas.spv.h"
#endif

static const ddisp_param half_params[] = {
    DDISP_PARAM("x", DDISP_ACCESS_IN, DDISP_DTYPE_F16, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
    DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
};

static float f16(uint16_t bits)
{
    int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
    float value = exponent ? ldexpf((float)(mantissa + 1024), exponent - 25)
                           : ldexpf((float)mantissa, -24); /* no infinity or NaN in the tests */
    return bits & 0x8000 ? -value : value;
}

HOST(half_forward)
{
    for (ITEMS(i)) {
        DATA(float, 1, i) = 2 * f16(DATA(uint16_t, 0, i));
    }
}

HOST(half_backward)
{
    for (ITEMS(i)) {
        add_grad(block, 0, i, 2 * UPSTREAM(float, 1, i));
    }
}

static const ddisp_entry half_host[] = {
    CTS_FORWARD(10u, half_forward),
    CTS_BACKWARD(10u, half_backward),
};

CTS_SOURCE(half, NULL, 0, DDISP_CODE_ANY_LAYOUT, 0);
