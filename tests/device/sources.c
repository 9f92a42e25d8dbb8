/*
 * sources.c - the kernels of the tests with their codes: host functions, SPIR-V made at build time,
 * and PTX where the build had nvcc.
 */
#include "device_test.h"

#if DEVICE_HAVE_SPIRV
#include "spirv.h"
#define SPIRV(name)                                                                                \
    {spirv_##name##_forward, spirv_##name##_backward_partitioned, spirv_##name##_backward,         \
     spirv_##name##_backward_cas},                                                                 \
    {                                                                                              \
        sizeof spirv_##name##_forward, sizeof spirv_##name##_backward_partitioned,                 \
            sizeof spirv_##name##_backward, sizeof spirv_##name##_backward_cas                     \
    }
#else
#define SPIRV(name)                                                                                \
    {NULL},                                                                                        \
    {                                                                                              \
        0                                                                                          \
    }
#endif
#if DEVICE_HAVE_PTX
#include "kernels_75.ptx.h"
#include "kernels_90.ptx.h"
#include "mul_75.ptx.h"
#include "mul_90.ptx.h"
#endif

const ddisp_dtype dtype_of[TYPES] = {DDISP_DTYPE_F32, DDISP_DTYPE_F64, DDISP_DTYPE_F16,
                                     DDISP_DTYPE_BF16};

#define HOST(name)   void name(const struct ddisp_block *, uint64_t, uint64_t);
#define EACH_TYPE(X) X(f32) X(f64) X(f16) X(bf16)
#define TYPED(type)  HOST(gather_##type##_forward) HOST(gather_##type##_backward) HOST(replay_##type)
EACH_TYPE(TYPED)
HOST(mul_forward)
HOST(mul_backward)
HOST(mul_backward_5)
HOST(mul_backward_6)
HOST(rows_forward)
HOST(rows_backward)
HOST(order_forward)
HOST(order_backward)
HOST(many_forward)
HOST(many_backward)

#define IN(name, dtype, rank)                                                                      \
    DDISP_PARAM(name, DDISP_ACCESS_IN, dtype, rank, DDISP_PARAM_DIFFERENTIABLE)
#define OUT(name, dtype, rank)                                                                     \
    DDISP_PARAM(name, DDISP_ACCESS_OUT, dtype, rank, DDISP_PARAM_DIFFERENTIABLE)
#define ANY_RANK DDISP_RANK_ANY

static const ddisp_param mul_params[] = {
    IN("a", DDISP_DTYPE_F32, ANY_RANK),
    IN("b", DDISP_DTYPE_F32, ANY_RANK),
    OUT("y", DDISP_DTYPE_F32, ANY_RANK),
};
static const ddisp_param rows_params[] = {
    IN("m", DDISP_DTYPE_F32, 2),
    IN("v", DDISP_DTYPE_F32, 1),
    OUT("y", DDISP_DTYPE_F32, 1),
};
static const ddisp_param order_params[] = {
    IN("x", DDISP_DTYPE_F32, ANY_RANK),
    DDISP_PARAM_SCALAR("k", DDISP_DTYPE_F64),
    OUT("y", DDISP_DTYPE_F32, ANY_RANK),
    DDISP_PARAM_SCALAR("m", DDISP_DTYPE_I64),
};
#define X(number) IN("x" #number, DDISP_DTYPE_F32, 1)
static const ddisp_param many_params[] = {
    X(0),
    X(1),
    X(2),
    X(3),
    X(4),
    X(5),
    X(6),
    X(7),
    X(8),
    X(9),
    X(10),
    X(11),
    OUT("y", DDISP_DTYPE_F32, 1),
};
#define GATHER_PARAMS(type, dtype)                                                                 \
    static const ddisp_param gather_##type##_params[] = {                                          \
        IN("table", dtype, ANY_RANK),                                                              \
        DDISP_PARAM("index", DDISP_ACCESS_IN, DDISP_DTYPE_I32, 1, 0),                              \
        OUT("y", dtype, 1),                                                                        \
        DDISP_PARAM_SCALAR("how", DDISP_DTYPE_I32),                                                \
        DDISP_PARAM_SCALAR("modulus", DDISP_DTYPE_U32),                                            \
        DDISP_PARAM_SCALAR("rest", DDISP_DTYPE_U32),                                               \
    };
GATHER_PARAMS(f32, DDISP_DTYPE_F32)
GATHER_PARAMS(f64, DDISP_DTYPE_F64)
GATHER_PARAMS(f16, DDISP_DTYPE_F16)
GATHER_PARAMS(bf16, DDISP_DTYPE_BF16)
static const ddisp_param replay_params[] = {
    DDISP_PARAM("block", DDISP_ACCESS_IN, DDISP_DTYPE_U64, 1, 0),
    DDISP_PARAM("cells", DDISP_ACCESS_INOUT, DDISP_DTYPE_U64, 1, 0),
    DDISP_PARAM("values", DDISP_ACCESS_IN, DDISP_DTYPE_U64, 1, 0),
    DDISP_PARAM_SCALAR("how", DDISP_DTYPE_I32),
};

#define SOURCE(name, masked_a, masked_b, is_mul)                                                   \
    const source name##_source = {                                                                 \
        #name,          name##_params,   COUNT(name##_params),                                     \
        name##_forward, name##_backward, {masked_a, masked_b},                                     \
        SPIRV(name),    is_mul,          false,                                                    \
        false,                                                                                     \
    };
SOURCE(mul, mul_backward_5, mul_backward_6, true)
SOURCE(rows, NULL, NULL, false)
SOURCE(order, NULL, NULL, false)
SOURCE(many, NULL, NULL, false)

#define GATHER(type, own)                                                                          \
    {                                                                                              \
        "gather_" #type, gather_##type##_params, COUNT(gather_##type##_params),                    \
            gather_##type##_forward, gather_##type##_backward, {NULL, NULL}, SPIRV(gather_##type), \
            false, own, false,                                                                     \
    }
const source gather_sources[TYPES] = {GATHER(f32, false), GATHER(f64, false), GATHER(f16, false),
                                      GATHER(bf16, false)};
const source gather_own_sources[TYPES] = {GATHER(f32, true), GATHER(f64, true), GATHER(f16, true),
                                          GATHER(bf16, true)};
#define REPLAY(type)                                                                               \
    {                                                                                              \
        "replay_" #type, replay_params, COUNT(replay_params), replay_##type, NULL, {NULL, NULL},   \
            SPIRV(replay_##type), false, false, true,                                              \
    }
const source replay_sources[TYPES] = {REPLAY(f32), REPLAY(f64), REPLAY(f16), REPLAY(bf16)};

/* ---- codes */

enum { FLAGS = DDISP_CODE_NULL_SAFE | DDISP_CODE_ANY_LAYOUT | DDISP_CODE_PRE_REDUCES };

typedef struct codes {
    ddisp_code list[8];
    uint32_t count;
    ddisp_entry entries[16];
    uint32_t entry_count;
    char names[2][64];
    ddisp_code_param own;
} codes;

static void add_code(codes *c, const source *from, const char *backend, const char *format,
                     const void *bytes, uint64_t size_bytes, uint32_t entry_count)
{
    ddisp_code code = DDISP_ZERO;
    code.backend = backend;
    code.format = format;
    code.bytes = bytes;
    code.size_bytes = size_bytes;
    code.entries = &c->entries[c->entry_count - entry_count];
    code.entry_count = entry_count;
    code.entry_size = (uint32_t)sizeof c->entries[0];
    code.flags = FLAGS;
    if (from->own_dtype) {
        c->own.grad_dtype = from->params[0].dtype;
        code.params = &c->own;
        code.param_count = 1;
        code.param_size = (uint32_t)sizeof c->own;
    }
    c->list[c->count++] = code;
}

static void add_entry(codes *c, ddisp_mode mode, const char *name)
{
    ddisp_entry entry = DDISP_ENTRY(mode, name, 256);
    entry.flags = DDISP_ENTRY_LOOPS;
    c->entries[c->entry_count++] = entry;
}

static void add_function(codes *c, ddisp_mode mode, ddisp_host_function function, uint64_t mask)
{
    ddisp_entry entry = DDISP_ENTRY_FUNCTION(mode, function, 0);
    entry.function_id = (uint64_t)(uintptr_t)function; /* nothing is kept beyond the process */
    if (mask) {
        entry.mask = mask;
        entry.flags = DDISP_ENTRY_MASKED;
    }
    c->entries[c->entry_count++] = entry;
}

static void add_host(codes *c, const source *from)
{
    uint32_t before = c->entry_count;
    add_function(c, DDISP_MODE_FORWARD, from->forward, 0);
    if (from->masked[0]) {
        add_function(c, DDISP_MODE_BACKWARD, from->masked[0], 5);
        add_function(c, DDISP_MODE_BACKWARD, from->masked[1], 6);
    }
    if (from->backward)
        add_function(c, DDISP_MODE_BACKWARD, from->backward, 0);
    add_code(c, from, "host", "host-function", NULL, 0, c->entry_count - before);
}

/* Replay has one entry, which adds; it is launched in forward mode. */
static void add_spirv(codes *c, const source *from, uint32_t build)
{
    if (!from->spirv[0])
        return;
    if (!from->replays) {
        add_entry(c, DDISP_MODE_FORWARD, "main");
        add_code(c, from, "vulkan", "spirv", from->spirv[0], from->spirv_size[0], 1);
    }
    for (uint32_t k = 1 + build; k < COUNT(from->spirv); k++) {
        add_entry(c, from->replays ? DDISP_MODE_FORWARD : DDISP_MODE_BACKWARD, "main");
        add_code(c, from, "vulkan", "spirv", from->spirv[k], from->spirv_size[k], 1);
    }
}

#if DEVICE_HAVE_PTX
static void add_ptx(codes *c, const source *from, const char *ptx, uint64_t size_bytes)
{
    const char *suffix = from->replays ? "" : "_forward";
    uint32_t count = 1;
    (void)snprintf(c->names[0], sizeof c->names[0], "%s%s", from->name, suffix);
    add_entry(c, DDISP_MODE_FORWARD, c->names[0]);
    if (!from->replays) {
        (void)snprintf(c->names[1], sizeof c->names[1], "%s_backward", from->name);
        add_entry(c, DDISP_MODE_BACKWARD, c->names[1]);
        count = 2;
    }
    add_code(c, from, "cuda", "ptx", ptx, size_bytes, count);
}
#endif

ddisp_kernel *make_kernel(fixture *f, const source *from)
{
    codes c = {.count = 0};
    add_host(&c, from);
    add_spirv(&c, from, f->build);
#if DEVICE_HAVE_PTX
    if (f->build != OLDEST)
        add_ptx(&c, from, from->is_mul ? mul_90_ptx : kernels_90_ptx,
                from->is_mul ? sizeof mul_90_ptx - 1 : sizeof kernels_90_ptx - 1);
    add_ptx(&c, from, from->is_mul ? mul_75_ptx : kernels_75_ptx,
            from->is_mul ? sizeof mul_75_ptx - 1 : sizeof kernels_75_ptx - 1);
#endif
    ddisp_kernel_desc desc = DDISP_ZERO;
    desc.size = (uint32_t)sizeof desc;
    desc.name = from->name;
    desc.params = from->params;
    desc.param_count = from->param_count;
    desc.param_size = (uint32_t)sizeof from->params[0];
    desc.codes = c.list;
    desc.code_count = c.count;
    desc.code_size = (uint32_t)sizeof c.list[0];
    assert_true(f->kernel_count < COUNT(f->kernels));
    CHECK(ddisp_kernel_create(f->context, &desc, &f->kernels[f->kernel_count]));
    return f->kernels[f->kernel_count++];
}
