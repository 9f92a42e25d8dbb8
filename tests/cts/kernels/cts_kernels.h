/*
 * cts_kernels.h - the kernels of the conformance suite. Each is written once per backend: <name>.c
 * (host, and the declaration), <name>.cu with its committed <name>.ptx, and <name>.comp.
 *
 * "switched" kernels have a switch per gradient and test add addresses (they specialize and are
 * null-safe); "opaque" ones touch every gradient whatever happens.
 */
#ifndef CTS_KERNELS_H
#define CTS_KERNELS_H

#include <diffdispatch/diffdispatch.h>

typedef struct cts_source {
    const char *name;
    const ddisp_param *params;
    uint32_t param_count;
    const ddisp_code *codes;
    uint32_t code_count;
} cts_source;

/** y = a * b. f32, any rank, any layout. */
extern const cts_source cts_mul;         /* switched */
extern const cts_source cts_mul_guarded; /* no switches, but null-safe */
extern const cts_source cts_mul_opaque;  /* opaque */
/** y = 2 a + b. Switched. */
extern const cts_source cts_linear;
/** y = v.x * s, with v [n,3], s [1], y [n]. Switched. */
extern const cts_source cts_component;
/** y = 1 a + 2 b + ... + 9 i + the sum of 16 scalar parameters. Opaque. */
extern const cts_source cts_wide;
/** y = x * x. Switched. */
extern const cts_source cts_square;
/** y = k * x, k a scalar parameter. Switched. */
extern const cts_source cts_scale;
/** y = v * i, i an i32 input that is not differentiable. Opaque. */
extern const cts_source cts_index;
/** x *= k in place, x an inout parameter, k a scalar parameter. Opaque. */
extern const cts_source cts_inout;
/** y = (double)x. Its upstream is f64, its gradient f32. Opaque. */
extern const cts_source cts_widen;
/** y = 2 x with x f16, y f32; x's gradient is f32. Opaque. */
extern const cts_source cts_half;
/** p = 2 x, q = 3 x: two outputs. */
extern const cts_source cts_pair;        /* switched, outputs too */
extern const cts_source cts_pair_opaque; /* opaque */

/** y[i] = x[index[i]] + s[0] with x and s of one type, by the device headers; backward alone. Per
 * type (f16, bf16, f32, f64; y is f32, or f64) and group size (64, 256, 1000). Switched. */
extern const cts_source cts_bins[4][3];

/** y = 2 x whose backward stores once into every element of the gradient. */
extern const cts_source cts_once;
/** y = 2 a + b whose backward adds without atomics. */
extern const cts_source cts_plain;

#endif
