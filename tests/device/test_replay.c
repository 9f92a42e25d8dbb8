/*
 * test_replay.c - the device headers given argument blocks that are written by hand: deterministic
 * mode, absent gradients, values that are not finite. Expected integers come from long double
 * arithmetic, which holds every product here exactly.
 */
#include "device_test.h"

#include <math.h>

enum { N = 3000, CELLS = 37 };

/* Two views behind a head: x, whose gradient is added to, and y, whose upstream is read. */
typedef struct block {
    ddisp_block head;
    ddisp_device_tensor x, y;
} block;

static ddisp_device_tensor view_of(int type, int64_t count)
{
    ddisp_device_tensor view;
    memset(&view, 0, sizeof view);
    view.dtype = dtype_of[type];
    view.grad_dtype = type == F64 ? DDISP_DTYPE_F64 : DDISP_DTYPE_F32;
    view.rank = 1;
    for (int d = 0; d < 8; d++)
        view.shape[d] = d == 0 ? count : 1;
    view.stride[0] = view.add_stride[0] = view.read_stride[0] = 1;
    return view;
}

static block block_of(int type, int64_t n, int64_t cells)
{
    block b;
    memset(&b, 0, sizeof b);
    b.head.abi = DDISP_BLOCK_ABI;
    b.head.size_bytes = (uint32_t)sizeof b;
    b.head.items = (uint64_t)n;
    b.head.tensor_count = 2;
    b.x = view_of(type, cells);
    b.y = view_of(type, n);
    return b;
}

/* Runs replay with that block; memory behind its addresses is `cells` and `values`. */
static void replay(fixture *f, ddisp_kernel *kernel, const block *b, ddisp_tensor *cells,
                   ddisp_tensor *values, int64_t cell_words, int64_t value_words, int how)
{
    const int64_t words = (int64_t)(sizeof *b / 8);
    int32_t how_value = how;
    operand o[3];
    describe(&o[0], make_memory(f, DDISP_DTYPE_U64, words, b), 1, &words, NULL, 0);
    describe(&o[1], cells, 1, &cell_words, NULL, 0);
    describe(&o[2], values, 1, &value_words, NULL, 0);
    ddisp_launch_options options = *options_of(f);
    options.items[0] = b->head.items;
    ddisp_arg args[4] = {o[0].arg, o[1].arg, o[2].arg, DDISP_ARG_SCALAR(&how_value)};
    CHECK(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 4, &options, NULL));
}

/* An upstream of all magnitudes around scale: tiny, halves of the last place, up to the bound. */
static double some_value(uint64_t *state, int type, int exponent)
{
    uint32_t r = next_random(state);
    double mantissa = 1 + (double)(next_random(state) & 0x7fffff) / 8388608.0;
    if (type == F64)
        mantissa += (double)next_random(state) * 0x1p-53;
    int e = (int)(r % 56) - 28 - exponent;
    if (r % 64 == 1)
        return 0;
    if (r % 64 == 3) /* an integer */
        return ldexp((double)(r >> 8 & 0xff), -exponent) * (r >> 7 & 1 ? 1 : -1);
    if (r % 64 == 2) /* exactly between two integers */
        return ldexp((double)(r >> 8 & 0xff) + 0.5, -exponent) * (r >> 7 & 1 ? 1 : -1);
    return ldexp(mantissa, e) * (r >> 7 & 1 ? -1 : 1);
}

static void encode_upstream(int type, double value, unsigned char *at)
{
    encode(type == F64 ? F64 : F32, value, at);
}

static void check_shadow(fixture *f, int type, int how, int exponent, bool bad)
{
    static unsigned char values[N * 8];
    static int64_t expected[2 * CELLS], result[2 * CELLS + 1];
    const int words = type == F64 ? 2 : 1, size = type == F64 ? 8 : 4;
    uint64_t state = 99;
    uint32_t sticky = 0;
    ddisp_kernel *kernel = f->kernels[0];
    memset(expected, 0, sizeof expected);
    for (int i = 0; i < N; i++) {
        double value = some_value(&state, type, exponent);
        if (bad && i == 100)
            value = (double)NAN;
        if (bad && i == 200)
            value = -HUGE_VAL;
        if (bad && i == 300)
            value = ldexp(-1, 62 - exponent); /* exactly the bound */
        encode_upstream(type, value, values + i * size);
        value = decode(type == F64 ? DDISP_DTYPE_F64 : DDISP_DTYPE_F32, values + i * size);
        long double scaled = ldexpl((long double)value, exponent);
        if (!isfinite(value)) {
            sticky |= 1;
        } else if (fabsl(scaled) >= 0x1p62L) {
            sticky |= 2;
        } else if (type != F64) {
            expected[i % CELLS] += llrintl(scaled);
        } else { /* the fraction in two steps, since 1 - tiny does not fit */
            long double whole = truncl(scaled);
            long long units = llrintl(ldexpl(scaled - whole, 30));
            bool below = scaled < whole;
            expected[2 * (i % CELLS)] += (int64_t)whole - (below ? 1 : 0);
            expected[2 * (i % CELLS) + 1] += units + (below ? 1 << 30 : 0);
        }
    }
    assert_int_equal(sticky, bad ? 3 : 0);
    ddisp_tensor *cells = make_memory(f, DDISP_DTYPE_U64, 2 * CELLS + 1, NULL);
    ddisp_tensor *upstream = make_memory(f, DDISP_DTYPE_U64, N * size / 8, values);
    block b = block_of(type, N, CELLS);
    b.x.flags = DDISP_DEVICE_TENSOR_SHADOW | DDISP_DEVICE_TENSOR_REQUIRES_GRAD;
    b.x.grad_add = address_of(cells);
    b.x.sticky = b.x.grad_add + 16 * CELLS;
    b.x.scale = ldexp(1, exponent);
    b.y.grad_read = address_of(upstream);
    replay(f, kernel, &b, cells, upstream, 2 * CELLS + 1, N * size / 8, how);
    read_memory(cells, result, sizeof result);
    for (int k = 0; k < words * CELLS; k++)
        if (result[k] != expected[k])
            fail_msg("type %d, how %d, scale 2^%d: word %d is %lld instead of %lld", type, how,
                     exponent, k, (long long)result[k], (long long)expected[k]);
    for (int k = words * CELLS; k < 2 * CELLS; k++)
        assert_int_equal(result[k], 0);
    assert_int_equal(result[2 * CELLS], sticky);
    forget_memory(f);
}

static void check_shadows(fixture *f, int type)
{
    static const int exponents[] = {20, 0, -40, 90};
    (void)make_kernel(f, &replay_sources[type]);
    for (uint32_t k = 0; k < COUNT(exponents); k++)
        for (int how = 0; how < HOWS; how++)
            for (int bad = 0; bad < 2; bad++)
                check_shadow(f, type, how, exponents[k], bad);
}

static void deterministic_f32_adds_exact_integers(fixture *f)
{
    check_shadows(f, F32);
}
static void deterministic_f64_adds_pairs_of_integers(fixture *f)
{
    check_shadows(f, F64);
}
static void deterministic_f16_adds_exact_integers(fixture *f)
{
    check_shadows(f, F16);
}
static void deterministic_bf16_adds_exact_integers(fixture *f)
{
    check_shadows(f, BF16);
}

static void absent_gradients_are_not_touched(fixture *f)
{
    for (int type = 0; type < TYPES; type++) {
        ddisp_kernel *kernel = make_kernel(f, &replay_sources[type]);
        static const double ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
        uint64_t result[4];
        ddisp_tensor *cells = make_memory(f, DDISP_DTYPE_U64, 4, NULL);
        ddisp_tensor *upstream = make_memory(f, DDISP_DTYPE_U64, 8, ones);
        block b = block_of(type, 8, 4);
        b.y.grad_read = address_of(upstream); /* nowhere to add */
        replay(f, kernel, &b, cells, upstream, 4, 8, AUTOMATIC);
        b.y.grad_read = 0; /* adds zeros */
        b.x.grad_add = address_of(cells);
        replay(f, kernel, &b, cells, upstream, 4, 8, AUTOMATIC);
        read_memory(cells, result, sizeof result);
        for (int k = 0; k < 4; k++)
            assert_int_equal(result[k], 0);
    }
}

/* A loop that compares values instead of bits would not end. */
static void not_a_number_reaches_its_cell_and_no_other(fixture *f)
{
    enum { ITEMS = 64, FEW = 8 };
    for (int type = 0; type < TYPES; type++) {
        ddisp_kernel *kernel = make_kernel(f, &replay_sources[type]);
        const int size = type == F64 ? 8 : 4;
        for (int own = 0; own < 2; own++) {
            unsigned char values[ITEMS * 8], result[FEW * 8];
            for (int i = 0; i < ITEMS; i++)
                encode_upstream(type,
                                i == 13   ? (double)NAN
                                : i == 30 ? HUGE_VAL
                                          : 1,
                                values + i * size);
            ddisp_tensor *cells = make_memory(f, DDISP_DTYPE_U64, FEW, NULL);
            ddisp_tensor *upstream = make_memory(f, DDISP_DTYPE_U64, ITEMS * size / 8, values);
            block b = block_of(type, ITEMS, FEW);
            b.x.grad_dtype = own ? dtype_of[type] : b.x.grad_dtype;
            b.x.grad_add = address_of(cells);
            b.y.grad_read = address_of(upstream);
            replay(f, kernel, &b, cells, upstream, FEW, ITEMS * size / 8, own ? PLAIN : AUTOMATIC);
            read_memory(cells, result, sizeof result);
            const uint32_t cell = ddisp_dtype_size(b.x.grad_dtype);
            for (uint32_t k = 0; k < FEW; k++) {
                double value = decode(b.x.grad_dtype, result + k * cell);
                assert_true(k == 13 % FEW   ? isnan(value)
                            : k == 30 % FEW ? value == HUGE_VAL
                                            : value == ITEMS / FEW);
            }
        }
    }
}

/* Sums of random numbers, against a double reference: n adds of one cell, each rounded once, are
 * off by at most n half units in the last place of the sum of magnitudes. */
static void random_sums_stay_within_their_bound(fixture *f)
{
    for (int type = 0; type < TYPES; type++) {
        ddisp_kernel *kernel = make_kernel(f, &replay_sources[type]);
        const int size = type == F64 ? 8 : 4;
        for (int own = 0; own < (type >= F16 ? 2 : 1); own++) {
            static unsigned char values[N * 8], result[CELLS * 8];
            double sum[CELLS] = {0}, magnitude[CELLS] = {0};
            uint64_t state = 5;
            const double unit = own           ? (type == F16 ? 0x1p-11 : 0x1p-8)
                                : type == F64 ? 0x1p-53
                                              : 0x1p-24;
            for (int i = 0; i < N; i++) {
                double value = (double)((int)(next_random(&state) % 2000) - 1000) / 1024;
                encode_upstream(type, value, values + i * size);
                sum[i % CELLS] += value;
                magnitude[i % CELLS] += fabs(value);
            }
            ddisp_tensor *cells = make_memory(f, DDISP_DTYPE_U64, CELLS, NULL);
            ddisp_tensor *upstream = make_memory(f, DDISP_DTYPE_U64, N * size / 8, values);
            block b = block_of(type, N, CELLS);
            b.x.grad_dtype = own ? dtype_of[type] : b.x.grad_dtype;
            b.x.grad_add = address_of(cells);
            b.y.grad_read = address_of(upstream);
            replay(f, kernel, &b, cells, upstream, CELLS, N * size / 8, AUTOMATIC);
            read_memory(cells, result, sizeof result);
            for (int k = 0; k < CELLS; k++) {
                double got =
                    decode(b.x.grad_dtype, result + (uint32_t)k * ddisp_dtype_size(b.x.grad_dtype));
                double bound = 2 * (N / CELLS + 1) * unit * magnitude[k];
                if (!(fabs(got - sum[k]) <= bound))
                    fail_msg("type %d, own %d, cell %d: %g instead of %g, bound %g", type, own, k,
                             got, sum[k], bound);
            }
            forget_memory(f);
        }
    }
}

const test_case replay_tests[] = {
    {"deterministic_f32_adds_exact_integers", deterministic_f32_adds_exact_integers},
    {"deterministic_f64_adds_pairs_of_integers", deterministic_f64_adds_pairs_of_integers},
    {"deterministic_f16_adds_exact_integers", deterministic_f16_adds_exact_integers},
    {"deterministic_bf16_adds_exact_integers", deterministic_bf16_adds_exact_integers},
    {"absent_gradients_are_not_touched", absent_gradients_are_not_touched},
    {"not_a_number_reaches_its_cell_and_no_other", not_a_number_reaches_its_cell_and_no_other},
    {"random_sums_stay_within_their_bound", random_sums_stay_within_their_bound},
    {NULL, NULL},
};
