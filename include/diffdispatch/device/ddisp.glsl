// ddisp.glsl - differentiable kernels for Vulkan in a few lines, for glslangValidator and glslc.
//
//   #version 460
//   #extension GL_GOOGLE_include_directive : require
//   #include "diffdispatch/device/ddisp.glsl"
//
//   DDISP_KERNEL(mul_backward, 3)
//   {
//       ddisp_tensor_float a = DDISP_TENSOR(float, 0), b = DDISP_TENSOR(float, 1),
//                          y = DDISP_TENSOR(float, 2);
//       DDISP_FOR_EACH_ITEM(i) {
//           float g = ddisp_grad(y, i);
//           ddisp_add_grad(a, i, g * ddisp_load(b, i));
//           ddisp_add_grad(b, i, g * ddisp_load(a, i));
//       }
//   }
//
// docs/kernels.md explains all of it. Declare the entry with DDISP_ENTRY_LOOPS and the code with
// DDISP_CODE_NULL_SAFE | DDISP_CODE_ANY_LAYOUT | DDISP_CODE_PRE_REDUCES. What may be defined before
// the inclusion, since it changes what the module demands of a device:
//   DDISP_GROUP_SIZE     threads per group, 256 if not said
//   DDISP_CAS            f32 and f64 gradients by compare-and-swap instead of native float atomics
//   DDISP_DETERMINISTIC  serves deterministic mode too: needs 64-bit integer atomics
//   DDISP_NO_SUBGROUPS   no subgroup operations: every add is a plain one
//   DDISP_PARTITIONED    sums lanes by GL_NV_shader_subgroup_partitioned: better on NVIDIA devices
#ifndef DIFFDISPATCH_DEVICE_DDISP_GLSL
#define DIFFDISPATCH_DEVICE_DDISP_GLSL

#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require

#ifndef DDISP_GROUP_SIZE
#define DDISP_GROUP_SIZE 256
#endif
layout(local_size_x = DDISP_GROUP_SIZE) in;

// ---- the argument block

struct ddisp_device_tensor {
    uint64_t data, grad_add, grad_read;
    uint dtype, grad_dtype, flags, rank;
    int64_t shape[8], stride[8], add_stride[8], read_stride[8];
    uint64_t scale, sticky, limit;
};
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer ddisp_block {
    uint abi, size_bytes;
    uint64_t items;
    uint tensor_count, scalar_count;
    uint64_t flags;
    ddisp_device_tensor tensors[];
};
#ifndef DDISP_BLOCK
layout(push_constant) uniform ddisp_push_constant {
    ddisp_block block;
} ddisp_argument;
#define DDISP_BLOCK ddisp_argument.block
#endif

// ---- kernels, parameters, work items

#include "ddisp_switches.glsl"

// The entry. Its name in the module is main, or what -e says (glslangValidator, together with
// --source-entrypoint main). After the name: the number of tensor parameters. They come first in
// the kernel's parameters, scalars (which are not counted) behind them; for any other order see
// DDISP_TENSOR_AT.
#define DDISP_KERNEL(name, tensors) DDISP_SWITCHES(tensors) void main()

// The tensor of parameter i, a number. type: float, double, f16, bf16 (also f32, f64), u8, i8, u16,
// i16, u32, i32, u64, i64. The variable's type is ddisp_tensor_<type>.
#define DDISP_TENSOR(type, i) DDISP_TENSOR_AT(type, i, i)
// The tensor of parameter i that is number k of the tensor parameters. Where i is not below the
// number of tensors, DDISP_SWITCH(i) must stand before the kernel.
#define DDISP_TENSOR_AT(type, i, k) ddisp_tensor_##type(ddisp_open(uint(k), ddisp_switch_##i))
// The value of scalar parameter i: f16 and bf16 as float, small integers as int or uint.
#define DDISP_SCALAR(type, i) DDISP_SCALAR_AT(type, uint(i) - DDISP_BLOCK.tensor_count)
// The value of number k of the scalar parameters.
#define DDISP_SCALAR_AT(type, k) ddisp_scalar_##type(ddisp_scalar_address(k))

// Number of work items of the launch.
#define DDISP_ITEMS DDISP_BLOCK.items
// Loops over the work items of this invocation, for any count and any grid.
#define DDISP_FOR_EACH_ITEM(i) \
    for (uint64_t i = ddisp_first_item(); i < DDISP_ITEMS; i += ddisp_item_step())

uint64_t ddisp_first_item()
{
    const uint64_t row = uint64_t(gl_WorkGroupID.z) * gl_NumWorkGroups.y + gl_WorkGroupID.y;
    return (row * gl_NumWorkGroups.x + gl_WorkGroupID.x) * DDISP_GROUP_SIZE +
           gl_LocalInvocationIndex;
}
uint64_t ddisp_item_step()
{
    return uint64_t(gl_NumWorkGroups.x) * gl_NumWorkGroups.y * gl_NumWorkGroups.z *
           DDISP_GROUP_SIZE;
}

// ---- where elements lie

// A multi-index, outermost first.
struct ddisp_index {
    uint64_t at[8];
};

// The element at (i, j, ...), to be given instead of an item: ddisp_load(m, ddisp_at(row, column)).
// As many numbers as the tensor has dimensions.
ddisp_index ddisp_at(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f,
                     uint64_t g, uint64_t h)
{
    return ddisp_index(uint64_t[8](a, b, c, d, e, f, g, h));
}
ddisp_index ddisp_at(uint64_t a)
{
    return ddisp_at(a, 0ul, 0ul, 0ul, 0ul, 0ul, 0ul, 0ul);
}
ddisp_index ddisp_at(uint64_t a, uint64_t b)
{
    return ddisp_at(a, b, 0ul, 0ul, 0ul, 0ul, 0ul, 0ul);
}
ddisp_index ddisp_at(uint64_t a, uint64_t b, uint64_t c)
{
    return ddisp_at(a, b, c, 0ul, 0ul, 0ul, 0ul, 0ul);
}
ddisp_index ddisp_at(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    return ddisp_at(a, b, c, d, 0ul, 0ul, 0ul, 0ul);
}
ddisp_index ddisp_at(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e)
{
    return ddisp_at(a, b, c, d, e, 0ul, 0ul, 0ul);
}
ddisp_index ddisp_at(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
    return ddisp_at(a, b, c, d, e, f, 0ul, 0ul);
}
ddisp_index ddisp_at(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g)
{
    return ddisp_at(a, b, c, d, e, f, g, 0ul);
}

#include "ddisp_elements.glsl"
#include "ddisp_add.glsl"

// ---- tensors

#define DDISP_FIELD(t, field) DDISP_BLOCK.tensors[t.view.tensor].field

// ddisp_load(t, at)      the element; `at` is an item, counted in row-major order and below
//                        ddisp_numel(t), or a multi-index. f16 and bf16 as float.
// ddisp_store(t, at, v)  rounds to nearest even
#define DDISP_ELEMENT_AT(type, value_type, size, At)                                               \
    value_type ddisp_load(ddisp_tensor_##type t, At at)                                            \
    {                                                                                              \
        return ddisp_get_##type(                                                                   \
            DDISP_FIELD(t, data) +                                                                 \
            size * ddisp_offset(t.view.tensor, DDISP_DATA, t.view.data_layout, at));               \
    }                                                                                              \
    void ddisp_store(ddisp_tensor_##type t, At at, value_type v)                                   \
    {                                                                                              \
        ddisp_put_##type(DDISP_FIELD(t, data) + size * ddisp_offset(t.view.tensor, DDISP_DATA,     \
                                                                    t.view.data_layout, at),       \
                         v);                                                                       \
    }
#define DDISP_ELEMENTS(type, value_type, size)                                                     \
    struct ddisp_tensor_##type {                                                                   \
        ddisp_view view;                                                                           \
    };                                                                                             \
    DDISP_ELEMENT_AT(type, value_type, size, uint64_t)                                             \
    DDISP_ELEMENT_AT(type, value_type, size, ddisp_index)                                          \
    int ddisp_rank(ddisp_tensor_##type t)                                                          \
    {                                                                                              \
        return int(DDISP_FIELD(t, rank));                                                          \
    }                                                                                              \
    int64_t ddisp_shape(ddisp_tensor_##type t, int dimension)                                      \
    {                                                                                              \
        return DDISP_FIELD(t, shape[dimension]);                                                   \
    }                                                                                              \
    int64_t ddisp_numel(ddisp_tensor_##type t)                                                     \
    {                                                                                              \
        int64_t product = 1l;                                                                      \
        for (int d = 0; d < ddisp_rank(t); d++)                                                    \
            product *= ddisp_shape(t, d);                                                          \
        return product;                                                                            \
    }

// ddisp_wants_grad(t)             whether ddisp_add_grad does anything
// ddisp_has_grad(t)               whether there is an upstream gradient
// ddisp_grad(t, at)               the upstream gradient, 0 where there is none
// ddisp_add_grad(t, at, v [, how])  adds v to the gradient, atomically; nothing where there is none.
//                                 how: DDISP_ADD_...
#define DDISP_GRADIENT_AT(type, value_type, At)                                                    \
    value_type ddisp_grad(ddisp_tensor_##type t, At at)                                            \
    {                                                                                              \
        if (!ddisp_has_grad(t))                                                                    \
            return value_type(0);                                                                  \
        return ddisp_upstream_##type(                                                              \
            t.view.tensor, ddisp_offset(t.view.tensor, DDISP_READ, t.view.read_layout, at));       \
    }                                                                                              \
    void ddisp_add_grad(ddisp_tensor_##type t, At at, value_type v, int how)                       \
    {                                                                                              \
        if (!ddisp_wants_grad(t))                                                                  \
            return;                                                                                \
        ddisp_accumulate_##type(                                                                   \
            t.view.tensor, ddisp_offset(t.view.tensor, DDISP_ADD, t.view.add_layout, at), v, how); \
    }                                                                                              \
    void ddisp_add_grad(ddisp_tensor_##type t, At at, value_type v)                                \
    {                                                                                              \
        ddisp_add_grad(t, at, v, DDISP_ADD_AUTOMATIC);                                             \
    }
#define DDISP_GRADIENTS(type, value_type)                                                          \
    bool ddisp_wants_grad(ddisp_tensor_##type t)                                                   \
    {                                                                                              \
        return t.view.on && DDISP_FIELD(t, grad_add) != 0ul;                                       \
    }                                                                                              \
    bool ddisp_has_grad(ddisp_tensor_##type t)                                                     \
    {                                                                                              \
        return t.view.on && DDISP_FIELD(t, grad_read) != 0ul;                                      \
    }                                                                                              \
    DDISP_GRADIENT_AT(type, value_type, uint64_t)                                                  \
    DDISP_GRADIENT_AT(type, value_type, ddisp_index)

DDISP_ELEMENTS(f16, float, 2)
DDISP_ELEMENTS(bf16, float, 2)
DDISP_ELEMENTS(f32, float, 4)
DDISP_ELEMENTS(f64, double, 8)
DDISP_ELEMENTS(u8, uint, 1)
DDISP_ELEMENTS(i8, int, 1)
DDISP_ELEMENTS(u16, uint, 2)
DDISP_ELEMENTS(i16, int, 2)
DDISP_ELEMENTS(u32, uint, 4)
DDISP_ELEMENTS(i32, int, 4)
DDISP_ELEMENTS(u64, uint64_t, 8)
DDISP_ELEMENTS(i64, int64_t, 8)
DDISP_GRADIENTS(f16, float)
DDISP_GRADIENTS(bf16, float)
DDISP_GRADIENTS(f32, float)
DDISP_GRADIENTS(f64, double)
#define ddisp_tensor_float ddisp_tensor_f32
#define ddisp_tensor_double ddisp_tensor_f64

#endif
