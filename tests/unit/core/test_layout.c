/*
 * test_layout.c - the arithmetic of shapes and strides against brute force: on thousands of small
 * layouts every address is enumerated, and each verdict of the room must agree with what is found.
 * Then the large ones, which cannot be enumerated: what does not fit in 64 bits is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <diffdispatch/kernel.h>

#include "layout.h"
#include "status.h"

enum { SPAN = 4096, ROUNDS = 20000 };

static uint32_t state = 2463534242u;

static uint32_t below(uint32_t limit)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state % limit;
}

static ddisp__layout make(uint32_t rank, const int64_t *shape, const int64_t *strides)
{
    ddisp__layout layout;
    assert_int_equal(ddisp__layout_make("shape", DDISP_DTYPE_F32, rank, shape, strides, &layout),
                     0);
    return layout;
}

/* Rank 0 to 3, extents 0 to 4 (0 rarely), strides -6 to 6; every fourth is dense. */
static ddisp__layout random_layout(void)
{
    int64_t shape[3], strides[3];
    uint32_t rank = below(4);
    for (uint32_t d = 0; d < rank; d++) {
        shape[d] = below(12) ? 1 + below(4) : 0;
        strides[d] = (int64_t)below(13) - 6;
    }
    return make(rank, shape, below(4) ? strides : NULL);
}

/* Calls visit with the element offset of each index. */
static void enumerate(const ddisp__layout *l, void (*visit)(void *user, int64_t at), void *user)
{
    int64_t index[DDISP_MAX_RANK] = {0};
    for (int64_t i = 0; i < l->numel; i++) {
        int64_t at = 0;
        for (uint32_t d = 0; d < l->rank; d++)
            at += index[d] * l->strides[d];
        visit(user, at);
        for (uint32_t d = l->rank; d-- > 0 && ++index[d] == l->shape[d];)
            index[d] = 0;
    }
}

struct addresses {
    unsigned char count[SPAN]; /* by byte, from the middle */
    int64_t base, size, low, high, order;
    int repeats, in_order;
};

static void mark(void *user, int64_t at)
{
    struct addresses *a = user;
    int64_t first = a->base + at * a->size;
    a->in_order &= at == a->order++;
    for (int64_t b = first; b < first + a->size; b++) {
        unsigned char *count = &a->count[SPAN / 2 + b];
        a->repeats |= *count;
        *count = 1;
    }
    if (first < a->low)
        a->low = first;
    if (first + a->size > a->high)
        a->high = first + a->size;
}

static void find(const ddisp__layout *l, int64_t base, uint32_t size, struct addresses *out)
{
    memset(out, 0, sizeof *out);
    out->base = base;
    out->size = size;
    out->low = INT64_MAX;
    out->high = INT64_MIN;
    out->in_order = 1;
    enumerate(l, mark, out);
    if (l->numel == 0)
        out->low = out->high = 0;
}

static void describe(const char *what, const ddisp__layout *l)
{
    printf("# %s:", what);
    for (uint32_t d = 0; d < l->rank; d++)
        printf(" %lld*%lld", (long long)l->shape[d], (long long)l->strides[d]);
    printf("\n");
}

#define AGREE(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("# " __VA_ARGS__);                                                              \
            printf("\n");                                                                          \
            fail();                                                                                \
        }                                                                                          \
    } while (0)

static void spans_are_those_of_the_addresses(void **unused)
{
    static const uint32_t sizes[] = {1, 2, 4, 8};
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        struct addresses found;
        ddisp__layout l = random_layout();
        uint32_t size = sizes[below(4)];
        find(&l, 0, size, &found);
        ddisp__span span = ddisp__layout_span(&l, size);
        if (span.low != found.low || span.high != found.high)
            describe("layout", &l);
        assert_int_equal(span.low, found.low);
        assert_int_equal(span.high, found.high);
    }
}

/* Dense is: the elements lie in order without gaps. Broadcast is: an axis of several with stride 0.
 */
static void classes_are_what_the_addresses_say(void **unused)
{
    (void)unused;
    int seen[8] = {0};
    for (int i = 0; i < ROUNDS; i++) {
        struct addresses found;
        ddisp__layout l = random_layout();
        uint32_t class = ddisp__layout_class(&l), expected = DDISP_LAYOUT_STRIDED;
        find(&l, 0, 1, &found);
        if (found.in_order)
            expected = DDISP_LAYOUT_DENSE;
        for (uint32_t d = 0; d < l.rank && l.numel; d++)
            if (l.shape[d] > 1 && l.strides[d] == 0)
                expected = DDISP_LAYOUT_BROADCAST;
        if (class != expected)
            describe("layout", &l);
        assert_int_equal(class, expected);
        seen[class]++;
    }
    assert_true(seen[DDISP_LAYOUT_DENSE] > 1000 && seen[DDISP_LAYOUT_STRIDED] > 1000 &&
                seen[DDISP_LAYOUT_BROADCAST] > 500);
}

static void self_overlap_is_never_missed(void **unused)
{
    (void)unused;
    int missed_none = 0, careful = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct addresses found;
        ddisp__layout l = random_layout();
        find(&l, 0, 1, &found);
        bool verdict = ddisp__layout_self_overlaps(&l);
        if (found.repeats && !verdict)
            describe("missed", &l);
        assert_true(verdict || !found.repeats);
        missed_none += found.repeats;
        careful += verdict && !found.repeats;
    }
    assert_true(missed_none > 1000); /* the test has seen what it tests for */
    assert_true(careful < ROUNDS / 10);
}

static void overlap_is_never_missed_and_exact_for_dense(void **unused)
{
    static const uint32_t sizes[] = {1, 2, 4, 8};
    const uint64_t origin = 1 << 20;
    (void)unused;
    int met = 0, apart = 0, careful = 0;
    for (int i = 0; i < 3 * ROUNDS; i++) {
        struct addresses a, b;
        ddisp__layout la = random_layout(), lb = random_layout();
        uint32_t size_a = sizes[below(4)], size_b = sizes[below(4)];
        int64_t shift = (int64_t)below(200) - 100;
        find(&la, 0, size_a, &a);
        find(&lb, shift, size_b, &b);
        bool truth = false;
        for (int k = 0; k < SPAN && !truth; k++)
            truth = a.count[k] && b.count[k];
        bool verdict =
            ddisp__layout_overlap(origin, &la, size_a, origin + (uint64_t)shift, &lb, size_b);
        bool other =
            ddisp__layout_overlap(origin + (uint64_t)shift, &lb, size_b, origin, &la, size_a);
        bool dense = ddisp__layout_class(&la) == DDISP_LAYOUT_DENSE &&
                     ddisp__layout_class(&lb) == DDISP_LAYOUT_DENSE;
        if ((truth && !verdict) || (dense && truth != verdict) || verdict != other) {
            describe("a", &la);
            describe("b", &lb);
        }
        AGREE(verdict || !truth, "sizes %u and %u, shift %lld: they meet", size_a, size_b,
              (long long)shift);
        AGREE(!dense || verdict == truth, "sizes %u and %u, shift %lld: dense, verdict %d", size_a,
              size_b, (long long)shift, verdict);
        AGREE(verdict == other || !truth, "the verdict depends on the order");
        met += truth;
        apart += !truth && !verdict;
        careful += verdict && !truth;
    }
    assert_true(met > 5000 && apart > 5000);
    assert_true(careful < 3 * ROUNDS / 20);
}

/* What programs really do is settled exactly: rows, columns, tiles, interleaved channels. */
static void tiles_and_interleaved_channels_are_exact(void **unused)
{
    const int64_t shape[2] = {8, 8}, whole[2] = {64, 1}, pixels[2] = {100, 2}, packed[2] = {6, 3};
    (void)unused;
    for (int64_t row = 0; row < 24; row += 4)
        for (int64_t column = 0; column < 24; column += 4) {
            ddisp__layout tile = make(2, shape, whole);
            uint64_t at = 4096, other = at + (uint64_t)(row * 64 + column) * 4;
            assert_int_equal(ddisp__layout_overlap(at, &tile, 4, other, &tile, 4),
                             row < 8 && column < 8);
        }
    for (int64_t channel = 0; channel < 6; channel++) {
        ddisp__layout one = make(2, pixels, packed);
        uint64_t other = 4096 + (uint64_t)channel * 4;
        assert_int_equal(ddisp__layout_overlap(4096, &one, 4, other, &one, 4), channel % 3 == 0);
    }
}

/* Strides that fit into each other in no order: the answer may be careful, but it comes. */
static void strange_strides_are_answered(void **unused)
{
    int64_t shape[8], strides[8];
    (void)unused;
    for (int d = 0; d < 8; d++) {
        shape[d] = 100;
        strides[d] = 16 - 2 * d;
    }
    ddisp__layout even = make(8, shape, strides);
    (void)ddisp__layout_overlap(4096, &even, 1, 4097, &even, 1);
    assert_true(ddisp__layout_overlap(4096, &even, 1, 4096, &even, 1));
}

static void dense_copies_keep_the_shape(void **unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        ddisp__layout l = random_layout(), dense, kept;
        ddisp__layout_dense(&l, false, &dense);
        ddisp__layout_dense(&l, true, &kept);
        assert_true(ddisp__layout_same_shape(&l, &dense) && ddisp__layout_same_shape(&l, &kept));
        assert_int_equal(ddisp__layout_class(&dense), DDISP_LAYOUT_DENSE);
        assert_int_equal(dense.numel, l.numel);
        int64_t stored = l.numel ? 1 : 0; /* one cell for each index that differs elsewhere */
        for (uint32_t d = 0; d < l.rank && l.numel; d++) {
            bool repeats = l.shape[d] > 1 && l.strides[d] == 0;
            assert_int_equal(kept.shape[d] > 1 && kept.strides[d] == 0, repeats);
            stored *= repeats ? 1 : l.shape[d];
        }
        assert_int_equal(ddisp__layout_stored(&kept), stored);
        assert_int_equal(ddisp__layout_span(&kept, 1).high, stored);
    }
}

static void size_one_axes_do_not_count(void **unused)
{
    const int64_t shape[5] = {1, 3, 1, 4, 1};
    const int64_t strides[3][5] = {{0, 4, 0, 1, 0}, {12, 4, 4, 1, 1}, {99, 4, 77, 1, 55}};
    (void)unused;
    ddisp__layout dense = make(5, shape, NULL);
    for (int s = 0; s < 3; s++) {
        ddisp__layout l = make(5, shape, strides[s]);
        assert_int_equal(ddisp__layout_class(&l), DDISP_LAYOUT_DENSE);
        assert_true(ddisp__layout_equal(&l, &dense));
        assert_false(ddisp__layout_self_overlaps(&l));
        assert_int_equal(ddisp__layout_span(&l, 4).low, 0);
        assert_int_equal(ddisp__layout_span(&l, 4).high, 48);
    }
}

static void refused(ddisp_status expected, const char *text, ddisp_dtype dtype, uint32_t rank,
                    const int64_t *shape, const int64_t *strides)
{
    ddisp__layout layout;
    memset(&layout, 0x5A, sizeof layout);
    assert_int_equal(ddisp__layout_make("width", dtype, rank, shape, strides, &layout), expected);
    assert_non_null(strstr(ddisp__error()->message, "width"));
    assert_non_null(strstr(ddisp__error()->message, text));
    for (size_t i = 0; i < sizeof layout; i++)
        assert_int_equal(((unsigned char *)&layout)[i], 0x5A);
}

static void what_does_not_fit_is_refused(void **unused)
{
    const ddisp_status over = DDISP_STATUS_OVERFLOW, bad = DDISP_STATUS_INVALID_ARGUMENT;
    const int64_t half = INT64_C(1) << 32, most = INT64_MAX;
    const int64_t square[2] = {half, half}, line[1] = {most}, two[1] = {2}, three[1] = {3};
    const int64_t down[1] = {INT64_MIN}, far[1] = {INT64_MAX}, minus[2] = {2, -1};
    const int64_t bytes[1] = {INT64_C(1) << 61};
    const int64_t zero[3] = {0, most, most};
    (void)unused;
    refused(over, "64 bits", DDISP_DTYPE_U8, 2, square, NULL);
    refused(over, "bits", DDISP_DTYPE_F32, 1, line, NULL);
    refused(over, "bits", DDISP_DTYPE_F64, 1, bytes, NULL);
    refused(over, "bits", DDISP_DTYPE_U8, 1, three, far);
    refused(over, "bits", DDISP_DTYPE_F32, 1, two, far);
    refused(over, "bits", DDISP_DTYPE_U8, 1, three, down);
    refused(bad, "-1", DDISP_DTYPE_U8, 2, minus, NULL);
    refused(bad, "9", DDISP_DTYPE_U8, 9, square, NULL);
    refused(bad, "NULL", DDISP_DTYPE_U8, 1, NULL, NULL);
    refused(bad, "dtype", DDISP_DTYPE_ANY, 0, NULL, NULL);
    refused(bad, "77", 77, 0, NULL, NULL);
    /* No elements: whatever the other extents, nothing is touched. */
    ddisp__layout layout;
    const int64_t wild[3] = {far[0], far[0], far[0]};
    assert_int_equal(ddisp__layout_make("width", DDISP_DTYPE_F32, 3, zero, wild, &layout), 0);
    assert_int_equal(layout.numel, 0);
    assert_int_equal(ddisp__layout_span(&layout, 4).high, 0);
    assert_int_equal(ddisp__layout_class(&layout), DDISP_LAYOUT_DENSE);
}

static void layouts_are_written_as_people_write_them(void **unused)
{
    char text[64], cut[6];
    const int64_t shape[3] = {2, 0, 7};
    (void)unused;
    ddisp__layout l = make(3, shape, NULL), scalar = make(0, NULL, NULL);
    ddisp__layout_format(DDISP_DTYPE_BF16, &l, text, sizeof text);
    assert_string_equal(text, "bf16[2,0,7]");
    ddisp__layout_format(DDISP_DTYPE_F64, &scalar, text, sizeof text);
    assert_string_equal(text, "f64[]");
    ddisp__layout_format(DDISP_DTYPE_BF16, &l, cut, sizeof cut);
    assert_string_equal(cut, "bf16[");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_are_those_of_the_addresses),
        cmocka_unit_test(classes_are_what_the_addresses_say),
        cmocka_unit_test(self_overlap_is_never_missed),
        cmocka_unit_test(overlap_is_never_missed_and_exact_for_dense),
        cmocka_unit_test(tiles_and_interleaved_channels_are_exact),
        cmocka_unit_test(strange_strides_are_answered),
        cmocka_unit_test(dense_copies_keep_the_shape),
        cmocka_unit_test(size_one_axes_do_not_count),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(layouts_are_written_as_people_write_them),
    };
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
