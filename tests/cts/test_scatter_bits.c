/*
 * test_scatter_bits.c - deterministic scatter-add gives the same bits on every device: those that
 * are written down here, as hashes. Elements of many magnitudes, by chance and in runs; few, and so
 * many that the bound is that of a sample, with and without elements beyond it.
 */
#include "cts.h"

#include <math.h>
#include <stdlib.h>

enum { MANY = (4 << 20) + 333 }; /* beyond 4 Mi elements the bound is that of a sample */

typedef struct golden {
    ddisp_dtype from, to;
    int64_t n, cells, run;
    int spread;  /* elements are up to 2^spread, or down to 2^-spread */
    int64_t odd; /* one element in so many is far beyond a sample's; 0: none */
    uint64_t bits;
} golden;

/** FNV-1a. */
static uint64_t hash_of(const void *memory, size_t size_bytes)
{
    const unsigned char *bytes = memory;
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < size_bytes; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001B3);
    return hash;
}

static void check_bits(cts *t, const golden *it)
{
    uint64_t state = 24;
    size_t size = ddisp_dtype_size(it->to), bytes = (size_t)it->cells * size;
    double *values = malloc((size_t)it->n * sizeof *values);
    double *places = malloc((size_t)it->n * sizeof *places);
    void *got = malloc(bytes);
    assert_true(values && places && got);
    for (int64_t i = 0; i < it->n; i++) {
        int exponent = (int)cts_random(&state, (uint32_t)it->spread * 2 + 1) - it->spread;
        bool is_odd = it->odd > 0 && i % it->odd == it->odd / 2;
        values[i] = (double)cts_random(&state, 1 << 24) - (1 << 23);
        if (it->from == DDISP_DTYPE_F64) /* more digits than f32 has */
            values[i] += (double)cts_random(&state, 1 << 24) * 0x1p-24;
        values[i] = ldexp(values[i], exponent - 23);
        values[i] *= is_odd ? 0x1p20 : 1;
        places[i] = i % it->run ? places[i - 1] : (double)cts_random(&state, (uint32_t)it->cells);
    }
    ddisp_tensor *from = cts_numbers(t, it->from, 1, &it->n, NULL, values);
    ddisp_tensor *index = cts_numbers(t, DDISP_DTYPE_I64, 1, &it->n, NULL, places);
    ddisp_tensor *to = cts_tensor(t, it->to, 1, &it->cells, NULL, 0, NULL);
    CTS_OK(ddisp_tensor_fill(to, 0, NULL));
    ddisp_accumulate_options options = DDISP_ZERO;
    options.size = (uint32_t)sizeof options;
    options.flags = DDISP_ACCUMULATE_DETERMINISTIC;
    CTS_OK(ddisp_tensor_scatter_add(to, 0, index, from, &options, NULL));
    CTS_OK(ddisp_tensor_read(to, got, bytes, NULL));
    CTS_CHECK(hash_of(got, bytes) == it->bits,
              "%s into %s, %lld into %lld cells, runs of %lld: bits have the hash 0x%016llX, not "
              "0x%016llX",
              ddisp_dtype_name(it->from), ddisp_dtype_name(it->to), (long long)it->n,
              (long long)it->cells, (long long)it->run, (unsigned long long)hash_of(got, bytes),
              (unsigned long long)it->bits);
    free(values);
    free(places);
    free(got);
}

static void deterministic_sums_have_known_bits(cts *t)
{
    static const golden known[] = {
        {DDISP_DTYPE_F32, DDISP_DTYPE_F32, 100000, 37, 1, 20, 0, UINT64_C(0xC071CD87B4BF0BAB)},
        {DDISP_DTYPE_F32, DDISP_DTYPE_F32, 100000, 5000, 13, 6, 0, UINT64_C(0x2A2BEC285B5F6F69)},
        {DDISP_DTYPE_F32, DDISP_DTYPE_F32, MANY, 900, 64, 5, 0, UINT64_C(0x7F909E0F4F2FBEA3)},
        {DDISP_DTYPE_F32, DDISP_DTYPE_F32, MANY, 1 << 20, 20, 3, 100003,
         UINT64_C(0xA449E96E25F6A2DB)},
        {DDISP_DTYPE_F16, DDISP_DTYPE_F16, 50000, 300, 1, 2, 0, UINT64_C(0x1E38ED2B89F86C53)},
        {DDISP_DTYPE_BF16, DDISP_DTYPE_F32, 50000, 3, 1, 30, 0, UINT64_C(0xE312C78ED71CAE88)},
        {DDISP_DTYPE_F64, DDISP_DTYPE_F64, 60000, 70, 1, 40, 0, UINT64_C(0xA8624335A082DE97)},
        {DDISP_DTYPE_F64, DDISP_DTYPE_F64, MANY, 70, 9, 3, 50021, UINT64_C(0xA2829F63872A50E1)},
        {DDISP_DTYPE_F64, DDISP_DTYPE_F32, 60000, 70, 5, 10, 0, UINT64_C(0x9FEE75E702F8AF7E)},
        {DDISP_DTYPE_F32, DDISP_DTYPE_F64, 60000, 70, 5, 10, 0, UINT64_C(0xC148EDF70563F431)},
    };
    if (!cts_scatters(t, DDISP_ACCUMULATE_DETERMINISTIC))
        CTS_SKIP(t, "the device has no deterministic scatter-add");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        check_bits(t, &known[i]);
}

const cts_test cts_scatter_bits_tests[] = {
    CTS_TEST(deterministic_sums_have_known_bits),
    CTS_END,
};
