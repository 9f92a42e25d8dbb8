/*
 * test_add.c - adds to gradients: lanes that meet at one address in every pattern, every dtype,
 * every way of treating them, and with some, one or none of the lanes taking part. Upstreams are
 * small integers, so every sum is known exactly.
 */
#include "device_test.h"

/* Which cell item i adds to. */
typedef struct pattern {
    const char *name;
    int64_t cells;
    int run; /* items that follow each other and add to one cell; 0: each item to its own */
    bool random;
} pattern;

static const pattern patterns[] = {
    {"one cell", 1, 1, false},
    {"runs of 64 in 32 cells", 32, 64, true},
    {"32 cells", 32, 1, true},
    {"5000 cells", 5000, 1, true},
    {"runs of 3 in 3000 cells", 3000, 3, true},
    {"every item its own", 0, 0, false},
};
/* Items with i % modulus == rest take part. */
static const struct {
    uint32_t modulus, rest;
} parts[] = {{1, 0}, {2, 1}, {7, 3}, {40, 33}, {UINT32_MAX, 0}, {UINT32_MAX, UINT32_MAX - 1}};

static void fill_index(const pattern *p, int64_t cells, int64_t n, int32_t *index)
{
    uint64_t state = 7;
    int32_t cell = 0;
    for (int64_t i = 0; i < n; i++) {
        if (p->run == 0)
            cell = (int32_t)i;
        else if (i % p->run == 0)
            cell = p->random ? (int32_t)(next_random(&state) % (uint64_t)cells) : 0;
        index[i] = cell;
    }
}

/* Where the tests keep what they expect. */
enum { MOST_ITEMS = 5000 };

static void check_gather(fixture *f, ddisp_kernel *kernel, int type, ddisp_dtype grad_dtype,
                         const pattern *p, int64_t n, int how, uint32_t modulus, uint32_t rest)
{
    static int32_t index[MOST_ITEMS];
    static double expected[MOST_ITEMS];
    static unsigned char upstream[MOST_ITEMS * 8], result[MOST_ITEMS * 8];
    /* The upstream of f16 and bf16 is f32, unless the code says otherwise of y: it does not. */
    ddisp_dtype read_dtype = type == F64 ? DDISP_DTYPE_F64 : DDISP_DTYPE_F32;
    int64_t cells = p->cells ? p->cells : n;
    uint32_t read_size = ddisp_dtype_size(read_dtype), size = ddisp_dtype_size(grad_dtype);
    int32_t how_value = how;
    operand o[3];
    fill_index(p, cells, n, index);
    memset(expected, 0, sizeof expected);
    for (int64_t i = 0; i < n; i++) {
        double value = (double)(i % 3 + 1);
        encode(type == F64 ? F64 : F32, value, upstream + i * read_size);
        if ((uint64_t)i % modulus == rest)
            expected[index[i]] += value;
    }
    ddisp_tensor *add = make_memory(f, grad_dtype, cells, NULL);
    describe(&o[0], make_memory(f, dtype_of[type], cells, NULL), 1, &cells, NULL, 0);
    describe(&o[1], make_memory(f, DDISP_DTYPE_I32, n, index), 1, &n, NULL, 0);
    describe(&o[2], make_memory(f, dtype_of[type], n, NULL), 1, &n, NULL, 0);
    give_add(&o[0], add, NULL, 0);
    give_read(&o[2], make_memory(f, read_dtype, n, upstream), NULL, 0);
    const ddisp_arg scalars[3] = {DDISP_ARG_SCALAR(&how_value), DDISP_ARG_SCALAR(&modulus),
                                  DDISP_ARG_SCALAR(&rest)};
    launch(f, kernel, DDISP_MODE_BACKWARD, 3, o, scalars, 3);
    read_memory(add, result, (uint64_t)cells * size);
    for (int64_t c = 0; c < cells; c++)
        if (decode(grad_dtype, result + c * size) != expected[c])
            fail_msg("%s, %lld items, %u mod %u, how %d: cell %lld is %g instead of %g", p->name,
                     (long long)n, rest, modulus, how, (long long)c,
                     decode(grad_dtype, result + c * size), expected[c]);
    forget_memory(f);
}

static void check_type(fixture *f, int type)
{
    static const int64_t counts[] = {1, 31, 33, 257, 4500};
    ddisp_kernel *kernel = make_kernel(f, &gather_sources[type]);
    ddisp_dtype grad_dtype = type == F64 ? DDISP_DTYPE_F64 : DDISP_DTYPE_F32;
    for (uint32_t p = 0; p < COUNT(patterns); p++)
        for (int how = 0; how < HOWS; how++) {
            for (uint32_t k = 0; k < COUNT(parts); k++)
                check_gather(f, kernel, type, grad_dtype, &patterns[p], 4500, how, parts[k].modulus,
                             parts[k].rest);
            for (uint32_t k = 0; k < COUNT(counts); k++)
                check_gather(f, kernel, type, grad_dtype, &patterns[p], counts[k], how, 1, 0);
        }
}

static void adds_to_f32_are_exact(fixture *f)
{
    check_type(f, F32);
}
static void adds_to_f64_are_exact(fixture *f)
{
    check_type(f, F64);
}
static void adds_of_f16_to_f32_are_exact(fixture *f)
{
    check_type(f, F16);
}
static void adds_of_bf16_to_f32_are_exact(fixture *f)
{
    check_type(f, BF16);
}

/* Sums stay below 256, so that bf16 holds them; neighbours in a word must not disturb each other.
 */
static void adds_to_halves_leave_neighbours_alone(fixture *f)
{
    static const pattern few = {"every cell of 81", 81, 1, true};
    for (int type = F16; type <= BF16; type++) {
        ddisp_kernel *kernel = make_kernel(f, &gather_own_sources[type]);
        for (int how = 0; how < HOWS; how++)
            check_gather(f, kernel, type, dtype_of[type], &few, 4500, how, 1, 0);
        check_gather(f, kernel, type, dtype_of[type], &patterns[5], 4500, AUTOMATIC, 2, 1);
        check_gather(f, kernel, type, dtype_of[type], &patterns[0], 80, AUTOMATIC, 1, 0);
    }
}

/* Cases 24 and 25 of the list of public bugs: half-precision sums that stall at 2048 or 256. */
static void ones_into_one_half_make_4096(fixture *f)
{
    enum { N = 4096 };
    static int32_t zeros[N];
    static float ones[N];
    int64_t one = 1, n = N;
    int32_t how = AUTOMATIC;
    uint32_t modulus = 1, rest = 0;
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    for (int type = F16; type <= BF16; type++) {
        ddisp_kernel *kernel = make_kernel(f, &gather_sources[type]);
        ddisp_tensor *table = NULL, *grad = NULL;
        float sum = 0;
        operand o[3];
        CHECK(ddisp_tensor_create(f->device, dtype_of[type], 1, &one, DDISP_TENSOR_REQUIRES_GRAD,
                                  &table));
        f->tensors[f->tensor_count++] = table;
        const ddisp_arg table_arg = DDISP_ARG(table);
        memset(&o[0], 0, sizeof o[0]);
        o[0].arg = table_arg;
        describe(&o[1], make_memory(f, DDISP_DTYPE_I32, N, zeros), 1, &n, NULL, 0);
        describe(&o[2], make_memory(f, dtype_of[type], N, NULL), 1, &n, NULL, 0);
        give_read(&o[2], make_memory(f, DDISP_DTYPE_F32, N, ones), NULL, 0);
        const ddisp_arg scalars[3] = {DDISP_ARG_SCALAR(&how), DDISP_ARG_SCALAR(&modulus),
                                      DDISP_ARG_SCALAR(&rest)};
        launch(f, kernel, DDISP_MODE_BACKWARD, 3, o, scalars, 3);
        CHECK(ddisp_tensor_grad(table, &grad));
        f->tensors[f->tensor_count++] = grad;
        read_memory(grad, &sum, sizeof sum);
        assert_true(sum == 4096);
    }
}

/* Forward: elements of every type go through load and store unchanged. */
static void elements_of_every_type_are_copied(fixture *f)
{
    static const double values[7] = {0, 1, -2.5, 0.15625, 448, -0.0078125, 3};
    for (int type = 0; type < TYPES; type++) {
        ddisp_kernel *kernel = make_kernel(f, &gather_sources[type]);
        unsigned char table[7 * 8], result[9 * 8];
        const int32_t index[9] = {6, 5, 4, 3, 2, 1, 0, 3, 6};
        int64_t cells = 7, n = 9;
        int32_t how = PLAIN;
        uint32_t modulus = 1, rest = 0, size = ddisp_dtype_size(dtype_of[type]);
        operand o[3];
        for (int i = 0; i < 7; i++)
            encode(type, values[i], table + (uint32_t)i * size);
        ddisp_tensor *out = make_memory(f, dtype_of[type], n, NULL);
        describe(&o[0], make_memory(f, dtype_of[type], cells, table), 1, &cells, NULL, 0);
        describe(&o[1], make_memory(f, DDISP_DTYPE_I32, n, index), 1, &n, NULL, 0);
        describe(&o[2], out, 1, &n, NULL, 0);
        const ddisp_arg scalars[3] = {DDISP_ARG_SCALAR(&how), DDISP_ARG_SCALAR(&modulus),
                                      DDISP_ARG_SCALAR(&rest)};
        launch(f, kernel, DDISP_MODE_FORWARD, 3, o, scalars, 3);
        read_memory(out, result, (uint64_t)n * size);
        for (int i = 0; i < 9; i++)
            assert_true(decode(dtype_of[type], result + (uint32_t)i * size) == values[index[i]]);
    }
}

const test_case add_tests[] = {
    {"adds_to_f32_are_exact", adds_to_f32_are_exact},
    {"adds_to_f64_are_exact", adds_to_f64_are_exact},
    {"adds_of_f16_to_f32_are_exact", adds_of_f16_to_f32_are_exact},
    {"adds_of_bf16_to_f32_are_exact", adds_of_bf16_to_f32_are_exact},
    {"adds_to_halves_leave_neighbours_alone", adds_to_halves_leave_neighbours_alone},
    {"ones_into_one_half_make_4096", ones_into_one_half_make_4096},
    {"elements_of_every_type_are_copied", elements_of_every_type_are_copied},
    {NULL, NULL},
};
