/*
 * test_native_scale.c - numbers of every kind, geometry, replay and wrapped streams with functions
 * and kernels of somebody else.
 */
#include "native_mul.h"

static void scale_forward(float *y, const float *x, int rows, int columns, int row_stride, float k)
{
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < columns; column++)
            y[row * columns + column] = k * x[row * row_stride + column];
}

/* ---- numbers of every kind, and geometry */

static const ddisp_param scale_params[3] = {
    DDISP_PARAM("x", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 2, 0),
    DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, 2, 0),
    DDISP_PARAM_SCALAR("k", DDISP_DTYPE_F32),
};
static const ddisp_native_arg scale_args[6] = {
    DDISP_NATIVE(DDISP_SOURCE_DATA, 1),         DDISP_NATIVE(DDISP_SOURCE_DATA, 0),
    {DDISP_SOURCE_SHAPE, 0, 0, 0, 0, 0, 4, 0},  {DDISP_SOURCE_SHAPE, 0, 1, 0, 0, 0, 4, 0},
    {DDISP_SOURCE_STRIDE, 0, 0, 0, 0, 0, 4, 0}, DDISP_NATIVE(DDISP_SOURCE_SCALAR, 2)};

enum { ROWS = 10, COLUMNS = 50, GAP = 14 };

/** x is every row of a wider matrix, x[r][c] = r * 64 + c. */
typedef struct scale {
    ddisp_kernel *kernel;
    ddisp_tensor *wide, *x, *y;
} scale;

static void make_scale(const native_fixture *f, scale *s, uint32_t group_x, uint32_t group_y)
{
    static const int64_t wide[2] = {ROWS, COLUMNS + GAP}, dense[2] = {ROWS, COLUMNS};
    static const int64_t strides[2] = {COLUMNS + GAP, 1};
    float values[ROWS * (COLUMNS + GAP)];
    native_own_code own;
    memset(&own, 0, sizeof own);
    native_set_bytes(&own.code, native_usual_format());
    own.code.entries = own.entries;
    own.code.entry_size = (uint32_t)sizeof own.entries[0];
    own.code.flags = DDISP_CODE_ANY_LAYOUT;
    native_add_entry(&own, DDISP_MODE_FORWARD, "scale_forward",
                     native_on_host ? NATIVE_FUNCTION(scale_forward) : NULL, scale_args, 6);
    own.entries[0].group_size[0] = group_x;
    own.entries[0].group_size[1] = group_y;
    NATIVE_OK(native_make_kernel(f, scale_params, 3, &own.code, 1, &s->kernel));
    for (int i = 0; i < ROWS * (COLUMNS + GAP); i++)
        values[i] = (float)i;
    NATIVE_OK(ddisp_tensor_create(f->device, DDISP_DTYPE_F32, 2, wide, 0, &s->wide));
    NATIVE_OK(ddisp_tensor_write(s->wide, values, sizeof values, NULL));
    NATIVE_OK(ddisp_tensor_as_strided(s->wide, 2, dense, strides, 0, &s->x));
    NATIVE_OK(ddisp_tensor_create(f->device, DDISP_DTYPE_F32, 2, dense, 0, &s->y));
    memset(values, 0, sizeof values);
    NATIVE_OK(ddisp_tensor_write(s->y, values, ROWS * COLUMNS * sizeof values[0], NULL));
}

static void free_scale(scale *s)
{
    ddisp_tensor_release(s->x);
    ddisp_tensor_release(s->y);
    ddisp_tensor_release(s->wide);
    ddisp_kernel_release(s->kernel);
}

static ddisp_status launch_scale(const scale *s, float k, const ddisp_launch_options *options,
                                 ddisp_stream *stream)
{
    const ddisp_arg args[3] = {DDISP_ARG(s->x), DDISP_ARG(s->y), DDISP_ARG_SCALAR(&k)};
    return ddisp_launch(s->kernel, DDISP_MODE_FORWARD, args, 3, options, stream);
}

/* The first rows and columns are k x, the others 0. */
static void expect_scaled(const scale *s, float k, int rows, int columns)
{
    float expected[ROWS * COLUMNS];
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            expected[r * COLUMNS + c] =
                r < rows && c < columns ? k * (float)(r * (COLUMNS + GAP) + c) : 0;
    native_values(s->y, expected, ROWS * COLUMNS);
}

static void numbers_of_every_kind_arrive(void **state)
{
    const native_fixture *f = native_of(state);
    scale s;
    make_scale(f, &s, 32, 4);
    ddisp_launch_options options = native_options(DDISP_POLICY_AUTO, NULL);
    options.items[0] = COLUMNS;
    options.items[1] = ROWS;
    NATIVE_OK(launch_scale(&s, 1.5f, &options, NULL));
    expect_scaled(&s, 1.5f, ROWS, COLUMNS);
    free_scale(&s);
}

static void explicit_grid_is_taken(void **state)
{
    const native_fixture *f = native_of(state);
    scale s;
    make_scale(f, &s, 32, 4);
    ddisp_launch_options options = native_options(DDISP_POLICY_AUTO, NULL);
    options.grid[0] = 1;
    options.grid[1] = 2;
    NATIVE_OK(launch_scale(&s, 2, &options, NULL));
    expect_scaled(&s, 2, 8, 32); /* two groups of 4 rows and 32 columns */
    free_scale(&s);
}

static void limits_are_told_with_both_numbers(void **state)
{
    const native_fixture *f = native_of(state);
    scale s;
    make_scale(f, &s, 32, 4);
    ddisp_launch_options options = native_options(DDISP_POLICY_AUTO, NULL);
    options.grid[0] = 1;
    options.grid[1] = 70000;
    NATIVE_FAILS(launch_scale(&s, 2, &options, NULL), DDISP_STATUS_LIMIT_EXCEEDED, "existing",
                 "70000", "65535", "axis y");
    options.grid[1] = 1;
    options.grid[2] = 65536;
    NATIVE_FAILS(launch_scale(&s, 2, &options, NULL), DDISP_STATUS_LIMIT_EXCEEDED, "65536", "65535",
                 "axis z");
    expect_scaled(&s, 2, 0, 0);
    free_scale(&s);
    make_scale(f, &s, 64, 32);
    options.grid[2] = 1;
    NATIVE_FAILS(launch_scale(&s, 2, &options, NULL), DDISP_STATUS_LIMIT_EXCEEDED, "existing",
                 "2048 threads", "1024");
    free_scale(&s);
    make_scale(f, &s, 4096, 1);
    NATIVE_FAILS(launch_scale(&s, 2, &options, NULL), DDISP_STATUS_LIMIT_EXCEEDED, "existing",
                 "4096", "1024", "axis x");
    free_scale(&s);
}

/* ---- replay and streams */

static void recorded_launches_are_replayed_and_changed(void **state)
{
    const native_fixture *f = native_of(state);
    ddisp_kernel *kernel = native_mul_kernel(f, native_usual_format());
    ddisp_stream *stream = NULL;
    ddisp_graph *graph = NULL;
    ddisp_launch_options options = native_options(DDISP_POLICY_AUTO, NULL), tiles = options;
    mul m;
    scale s;
    options.flags = DDISP_LAUNCH_KEEP_UPSTREAM;
    tiles.items[0] = COLUMNS;
    tiles.items[1] = ROWS;
    mul_make(f, &m, 5000, DDISP_TENSOR_REQUIRES_GRAD, 0);
    make_scale(f, &s, 32, 4);
    NATIVE_OK(
        mul_launch(kernel, DDISP_MODE_BACKWARD, &m, &options, NULL)); /* the gradient is there */
    NATIVE_OK(ddisp_device_synchronize(f->device, DDISP_TIMEOUT_INFINITE));
    NATIVE_OK(ddisp_stream_create(f->device, 0, &stream));
    NATIVE_OK(ddisp_stream_begin_capture(stream));
    NATIVE_OK(mul_launch(kernel, DDISP_MODE_BACKWARD, &m, &options, stream));
    NATIVE_OK(launch_scale(&s, 2, &tiles, stream)); /* built while the stream records */
    NATIVE_OK(ddisp_stream_end_capture(stream, &graph));
    assert_int_equal(ddisp_graph_launch_count(graph), 2);
    mul_expect_gradient(&m, true, 1); /* nothing has run */
    expect_scaled(&s, 2, 0, 0);
    for (int i = 0; i < 3; i++)
        NATIVE_OK(ddisp_graph_launch(graph, stream));
    NATIVE_OK(ddisp_stream_synchronize(stream, DDISP_TIMEOUT_INFINITE));
    mul_expect_gradient(&m, true, 4);
    native_expect_none(m.b);
    expect_scaled(&s, 2, ROWS, COLUMNS);
    float k = 3;
    const ddisp_arg changed = DDISP_ARG_SCALAR(&k);
    NATIVE_OK(ddisp_graph_update(graph, 1, 2, &changed));
    NATIVE_OK(ddisp_graph_launch(graph, stream));
    NATIVE_OK(ddisp_stream_synchronize(stream, DDISP_TIMEOUT_INFINITE));
    expect_scaled(&s, 3, ROWS, COLUMNS);
    mul_expect_gradient(&m, true, 5);
    ddisp_graph_release(graph);
    ddisp_stream_release(stream);
    free_scale(&s);
    mul_free(&m);
    ddisp_kernel_release(kernel);
}

/* 0 is CUDA's legacy default stream, which every program has. */
static void streams_of_the_application_are_wrapped_where_there_are_any(void **state)
{
    const native_fixture *f = native_of(state);
    ddisp_kernel *kernel = native_mul_kernel(f, native_usual_format());
    ddisp_stream *stream = NULL;
    mul m;
    mul_make(f, &m, 5000, DDISP_TENSOR_REQUIRES_GRAD, 0);
    if (native_on_host) {
        NATIVE_FAILS(ddisp_stream_wrap(f->device, 0, &stream), DDISP_STATUS_UNSUPPORTED, "host");
    } else {
        NATIVE_OK(ddisp_stream_wrap(f->device, 0, &stream));
        NATIVE_OK(mul_launch(kernel, DDISP_MODE_FORWARD, &m, NULL, stream));
        NATIVE_OK(mul_launch(kernel, DDISP_MODE_BACKWARD, &m, NULL, stream));
        NATIVE_OK(ddisp_stream_synchronize(stream, DDISP_TIMEOUT_INFINITE));
        mul_expect_product(&m);
        mul_expect_gradient(&m, true, 1);
        ddisp_stream_release(stream);
    }
    mul_free(&m);
    ddisp_kernel_release(kernel);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, native_open, native_close)

const struct CMUnitTest native_scale_tests[] = {
    TEST(numbers_of_every_kind_arrive),
    TEST(recorded_launches_are_replayed_and_changed),
    TEST(streams_of_the_application_are_wrapped_where_there_are_any),
};
const size_t native_scale_test_count = sizeof native_scale_tests / sizeof native_scale_tests[0];

const struct CMUnitTest native_group_tests[] = {
    TEST(explicit_grid_is_taken),
    TEST(limits_are_told_with_both_numbers),
};
const size_t native_group_test_count = sizeof native_group_tests / sizeof native_group_tests[0];
