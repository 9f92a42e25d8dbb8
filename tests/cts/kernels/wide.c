/*
 * wide.c - y = 1 a + 2 b + ... + 9 i + the sum of 16 scalars, opaque: more arguments than registers
 * or push constants have room for.
 */
#include "cts_host.h"

#include "wide.ptx.h"
#if CTS_HAVE_SPIRV
#include "wide_forward.spv.h"
#include "wide_backward.spv.h"
#include "wide_backward_cas.spv.h"
#endif

#define INPUT(name)                                                                                \
    DDISP_PARAM(name, DDISP_ACCESS_IN, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE)
#define NUMBER(name) DDISP_PARAM_SCALAR(name, DDISP_DTYPE_F32)

static const ddisp_param wide_params[] = {
    INPUT("a"),
    INPUT("b"),
    INPUT("c"),
    INPUT("d"),
    INPUT("e"),
    INPUT("f"),
    INPUT("g"),
    INPUT("h"),
    INPUT("i"),
    NUMBER("s0"),
    NUMBER("s1"),
    NUMBER("s2"),
    NUMBER("s3"),
    NUMBER("s4"),
    NUMBER("s5"),
    NUMBER("s6"),
    NUMBER("s7"),
    NUMBER("s8"),
    NUMBER("s9"),
    NUMBER("s10"),
    NUMBER("s11"),
    NUMBER("s12"),
    NUMBER("s13"),
    NUMBER("s14"),
    NUMBER("s15"),
    DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, DDISP_RANK_ANY, DDISP_PARAM_DIFFERENTIABLE),
};

HOST(wide_forward)
{
    float sum = 0;
    for (uint32_t s = 0; s < 16; s++)
        sum += scalar_f32(block, s);
    for (ITEMS(i)) {
        float y = sum;
        for (uint32_t p = 0; p < 9; p++)
            y += (float)(p + 1) * DATA(float, p, i);
        DATA(float, 9, i) = y;
    }
}

HOST(wide_backward)
{
    for (ITEMS(i)) {
        for (uint32_t p = 0; p < 9; p++)
            add_grad(block, p, i, (float)(p + 1) * UPSTREAM(float, 9, i));
    }
}

static const ddisp_entry wide_host[] = {
    CTS_FORWARD(23u, wide_forward),
    CTS_BACKWARD(23u, wide_backward),
};

CTS_SOURCE(wide, NULL, 0, DDISP_CODE_ANY_LAYOUT, 0);
