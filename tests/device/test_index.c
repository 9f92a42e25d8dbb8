/*
 * test_index.c - where the device headers find elements: every layout and rank, multi-indices,
 * parameters in any order, blocks of any size; and what they leave alone.
 */
#include "device_test.h"

enum { MOST = 4096 };

/* Where the elements of one tensor lie. */
typedef struct layout {
    int64_t strides[8];
    int64_t offset;
} layout;

/* a, b, y; the gradients of a and b; the upstream gradient of y */
enum { A, B, Y, ADD_A, ADD_B, READ, PARTS };

typedef struct arrangement {
    const char *name;
    uint32_t rank;
    int64_t shape[8];
    layout parts[PARTS];
} arrangement;

#define SAME(...)                                                                                  \
    {                                                                                              \
        {__VA_ARGS__}, {__VA_ARGS__}, {__VA_ARGS__}, {__VA_ARGS__}, {__VA_ARGS__},                 \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

static const arrangement arrangements[] = {
    {"dense", 1, {1000}, SAME({1}, 0)},
    {"no axes", 0, {0}, SAME({0}, 2)},
    {"one item", 3, {1, 1, 1}, SAME({5, 0, -3}, 1)},
    {"gaps and backwards",
     1,
     {300},
     {{{3}, 0}, {{-2}, 598}, {{2}, 1}, {{-1}, 299}, {{4}, 3}, {{-3}, 897}}},
    {"transposed",
     2,
     {37, 23},
     {{{1, 37}, 0}, {{23, 1}, 0}, {{1, 40}, 5}, {{1, 37}, 0}, {{25, 1}, 2}, {{-1, 37}, 36}}},
    {"extents of 1",
     5,
     {1, 7, 1, 9, 1},
     {{{99, 9, 77, 1, 55}, 0},
      {{0, 9, 0, 1, 0}, 0},
      {{63, 9, 9, 1, 1}, 0},
      {{-4, 9, 2, 1, 0}, 0},
      {{1, 1, 1, 7, 1}, 0},
      {{0, 20, 3, 2, -9}, 0}}},
    {"eight axes",
     8,
     {2, 1, 3, 2, 1, 2, 3, 2},
     {{{72, 72, 24, 12, 12, 6, 2, 1}, 0},
      {{1, 2, 2, 6, 12, 12, 24, 72}, 0},
      {{144, 144, 48, 24, 24, 12, 4, 2}, 1},
      {{1, 2, 2, 6, 12, 12, 24, 72}, 3},
      {{-72, 0, 24, 12, 0, 6, 2, 1}, 72},
      {{72, 0, 24, 12, 0, 6, 2, -1}, 1}}},
    {"broadcast",
     3,
     {8, 6, 40},
     {{{0, 40, 1}, 0},
      {{1, 0, 8}, 0},
      {{240, 40, 1}, 0},
      {{0, 40, 1}, 0},
      {{2, 0, 16}, 0},
      {{0, 0, 0}, 0}}},
    {"one cell",
     2,
     {33, 31},
     {{{0, 0}, 0}, {{31, 1}, 0}, {{31, 1}, 0}, {{0, 0}, 1}, {{31, 1}, 0}, {{0, 1}, 0}}},
    {"nothing", 2, {0, 3}, SAME({3, 1}, 0)},
};

static int64_t room_of(const arrangement *c, const layout *l)
{
    int64_t highest = l->offset;
    for (uint32_t d = 0; d < c->rank; d++)
        if (l->strides[d] > 0 && c->shape[d] > 0)
            highest += (c->shape[d] - 1) * l->strides[d];
    return highest + 1;
}

/* Small integers, so that sums are exact. What lies between elements must keep its value. */
static void check_mul(fixture *f, ddisp_kernel *kernel, const arrangement *c, bool want_a,
                      bool want_b)
{
    static float host[PARTS][MOST], expected[PARTS][MOST];
    ddisp_tensor *memory[PARTS];
    operand o[3];
    for (int k = 0; k < PARTS; k++) {
        int64_t room = room_of(c, &c->parts[k]);
        assert_true(room <= MOST);
        for (int64_t i = 0; i < room; i++)
            host[k][i] = expected[k][i] = (float)((i * (k + 3) + k) % 7 - 3);
        memory[k] = make_memory(f, DDISP_DTYPE_F32, room, host[k]);
    }
    for (int k = A; k <= Y; k++)
        describe(&o[k], memory[k], c->rank, c->shape, c->parts[k].strides, c->parts[k].offset);
    if (want_a)
        give_add(&o[A], memory[ADD_A], c->parts[ADD_A].strides, c->parts[ADD_A].offset);
    if (want_b)
        give_add(&o[B], memory[ADD_B], c->parts[ADD_B].strides, c->parts[ADD_B].offset);
    give_read(&o[Y], memory[READ], c->parts[READ].strides, c->parts[READ].offset);
    for (int64_t i = 0; i < product(c->rank, c->shape); i++) {
        int64_t at[PARTS];
        for (int k = 0; k < PARTS; k++)
            at[k] = c->parts[k].offset + place(c->rank, c->shape, c->parts[k].strides, i);
        expected[Y][at[Y]] = host[A][at[A]] * host[B][at[B]];
        if (want_a)
            expected[ADD_A][at[ADD_A]] += host[READ][at[READ]] * host[B][at[B]];
        if (want_b)
            expected[ADD_B][at[ADD_B]] += host[READ][at[READ]] * host[A][at[A]];
    }
    launch(f, kernel, DDISP_MODE_BACKWARD, 3, o, NULL, 0);
    launch(f, kernel, DDISP_MODE_FORWARD, 3, o, NULL, 0);
    for (int k = 0; k < PARTS; k++) {
        int64_t room = room_of(c, &c->parts[k]);
        read_memory(memory[k], host[k], (uint64_t)room * sizeof(float));
        for (int64_t i = 0; i < room; i++)
            if (host[k][i] != expected[k][i])
                fail_msg("%s, tensor %d, element %lld: %g instead of %g", c->name, k, (long long)i,
                         (double)host[k][i], (double)expected[k][i]);
    }
    forget_memory(f);
}

static void mul_is_right_in_every_layout_and_mixture(fixture *f)
{
    ddisp_kernel *kernel = make_kernel(f, &mul_source);
    for (uint32_t k = 0; k < COUNT(arrangements); k++)
        for (int mixture = 0; mixture < 4; mixture++)
            check_mul(f, kernel, &arrangements[k], mixture & 1, mixture & 2);
}

/* More items than a grid of the library's choice has threads, and not a multiple of anything. */
static void loop_covers_every_item_once(fixture *f)
{
    enum { N = 1500007 };
    ddisp_kernel *kernel = make_kernel(f, &mul_source);
    float *host = malloc(N * sizeof *host);
    int64_t shape[1] = {N};
    operand o[3];
    assert_non_null(host);
    for (int i = 0; i < N; i++)
        host[i] = (float)(i % 5 + 1);
    ddisp_tensor *a = make_memory(f, DDISP_DTYPE_F32, N, host);
    ddisp_tensor *add = make_memory(f, DDISP_DTYPE_F32, N, NULL);
    describe(&o[A], a, 1, shape, NULL, 0);
    describe(&o[B], a, 1, shape, NULL, 0);
    describe(&o[Y], make_memory(f, DDISP_DTYPE_F32, N, NULL), 1, shape, NULL, 0);
    give_add(&o[B], add, NULL, 0);
    give_read(&o[Y], a, NULL, 0);
    launch(f, kernel, DDISP_MODE_BACKWARD, 3, o, NULL, 0);
    read_memory(add, host, N * sizeof *host);
    int wrong = 0;
    for (int i = 0; i < N; i++)
        wrong += host[i] != (float)((i % 5 + 1) * (i % 5 + 1));
    free(host);
    assert_int_equal(wrong, 0);
}

static void rows_are_found_by_multi_index(fixture *f)
{
    enum { ROWS = 50, COLUMNS = 7, STRIDE = 60 };
    ddisp_kernel *kernel = make_kernel(f, &rows_source);
    static float m[STRIDE * COLUMNS], v[COLUMNS], g[ROWS], y[ROWS], gm[ROWS * COLUMNS], gv[COLUMNS];
    int64_t shape[2] = {ROWS, COLUMNS}, columns = COLUMNS, transposed[2] = {1, STRIDE};
    operand o[3];
    for (int i = 0; i < STRIDE * COLUMNS; i++)
        m[i] = (float)(i % 11 - 5);
    for (int c = 0; c < COLUMNS; c++)
        v[c] = (float)(c - 2);
    for (int r = 0; r < ROWS; r++)
        g[r] = (float)(r % 3 + 1);
    ddisp_tensor *out = make_memory(f, DDISP_DTYPE_F32, ROWS, NULL);
    ddisp_tensor *add_m = make_memory(f, DDISP_DTYPE_F32, ROWS * COLUMNS, NULL);
    ddisp_tensor *add_v = make_memory(f, DDISP_DTYPE_F32, COLUMNS, NULL);
    describe(&o[0], make_memory(f, DDISP_DTYPE_F32, STRIDE * COLUMNS, m), 2, shape, transposed, 0);
    describe(&o[1], make_memory(f, DDISP_DTYPE_F32, COLUMNS, v), 1, &columns, NULL, 0);
    describe(&o[2], out, 1, shape, NULL, 0);
    give_add(&o[0], add_m, NULL, 0);
    give_add(&o[1], add_v, NULL, 0);
    give_read(&o[2], make_memory(f, DDISP_DTYPE_F32, ROWS, g), NULL, 0);
    launch(f, kernel, DDISP_MODE_FORWARD, 3, o, NULL, 0);
    launch(f, kernel, DDISP_MODE_BACKWARD, 3, o, NULL, 0);
    read_memory(out, y, sizeof y);
    read_memory(add_m, gm, sizeof gm);
    read_memory(add_v, gv, sizeof gv);
    for (int c = 0; c < COLUMNS; c++) {
        float sum = 0;
        for (int r = 0; r < ROWS; r++) {
            sum += g[r] * m[r + c * STRIDE];
            assert_true(gm[r * COLUMNS + c] == g[r] * v[c]);
        }
        assert_true(gv[c] == sum);
    }
    for (int r = 0; r < ROWS; r++) {
        float sum = 0;
        for (int c = 0; c < COLUMNS; c++)
            sum += m[r + c * STRIDE] * v[c];
        assert_true(y[r] == sum);
    }
}

static void scalars_may_stand_between_tensors(fixture *f)
{
    ddisp_kernel *kernel = make_kernel(f, &order_source);
    float x[4] = {1, 2, -4, 8}, g[4] = {2, 4, 6, -2}, y[4], gx[4];
    double k = 2.5;
    int64_t m = -7, shape[1] = {4};
    ddisp_tensor *out = make_memory(f, DDISP_DTYPE_F32, 4, NULL);
    ddisp_tensor *add = make_memory(f, DDISP_DTYPE_F32, 4, NULL);
    operand o[2];
    describe(&o[0], make_memory(f, DDISP_DTYPE_F32, 4, x), 1, shape, NULL, 0);
    describe(&o[1], out, 1, shape, NULL, 0);
    give_add(&o[0], add, NULL, 0);
    give_read(&o[1], make_memory(f, DDISP_DTYPE_F32, 4, g), NULL, 0);
    ddisp_arg args[4] = {o[0].arg, DDISP_ARG_SCALAR(&k), o[1].arg, DDISP_ARG_SCALAR(&m)};
    CHECK(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 4, options_of(f), NULL));
    CHECK(ddisp_launch(kernel, DDISP_MODE_BACKWARD, args, 4, options_of(f), NULL));
    read_memory(out, y, sizeof y);
    read_memory(add, gx, sizeof gx);
    for (int i = 0; i < 4; i++) {
        assert_true(y[i] == 2.5f * x[i] - 7);
        assert_true(gx[i] == 2.5f * g[i]);
    }
}

static void block_of_any_size_is_found(fixture *f)
{
    enum { N = 100, INPUTS = 12 };
    static const int used[3] = {0, 5, 11};
    ddisp_kernel *kernel = make_kernel(f, &many_source);
    float x[N], result[N];
    int64_t shape[1] = {N};
    operand o[INPUTS + 1];
    ddisp_tensor *out = make_memory(f, DDISP_DTYPE_F32, N, NULL), *add[INPUTS];
    for (int k = 0; k < INPUTS; k++) {
        for (int i = 0; i < N; i++)
            x[i] = (float)(i * (k + 1) % 13);
        describe(&o[k], make_memory(f, DDISP_DTYPE_F32, N, x), 1, shape, NULL, 0);
        add[k] = make_memory(f, DDISP_DTYPE_F32, N, NULL);
        give_add(&o[k], add[k], NULL, 0);
    }
    describe(&o[INPUTS], out, 1, shape, NULL, 0);
    give_read(&o[INPUTS], make_memory(f, DDISP_DTYPE_F32, N, x), NULL, 0); /* x of input 11 */
    launch(f, kernel, DDISP_MODE_FORWARD, INPUTS + 1, o, NULL, 0);
    launch(f, kernel, DDISP_MODE_BACKWARD, INPUTS + 1, o, NULL, 0);
    read_memory(out, result, sizeof result);
    for (int i = 0; i < N; i++)
        assert_true(result[i] == (float)(i % 13 + 6 * (i * 6 % 13) + 12 * (i * 12 % 13)));
    for (int k = 0; k < 3; k++) {
        read_memory(add[used[k]], result, sizeof result);
        for (int i = 0; i < N; i++)
            assert_true(result[i] == (float)((used[k] + 1) * (i * 12 % 13)));
    }
    read_memory(add[1], result, sizeof result);
    for (int i = 0; i < N; i++)
        assert_true(result[i] == 0);
}

const test_case index_tests[] = {
    {"mul_is_right_in_every_layout_and_mixture", mul_is_right_in_every_layout_and_mixture},
    {"loop_covers_every_item_once", loop_covers_every_item_once},
    {"rows_are_found_by_multi_index", rows_are_found_by_multi_index},
    {"scalars_may_stand_between_tensors", scalars_may_stand_between_tensors},
    {"block_of_any_size_is_found", block_of_any_size_is_found},
    {NULL, NULL},
};
