/*
 * ddisp.cuh - differentiable kernels for CUDA in a few lines, for nvcc, NVRTC and clang.
 *
 *   DDISP_KERNEL(mul_backward, 3)
 *   {
 *       auto a = DDISP_TENSOR(float, 0), b = DDISP_TENSOR(float, 1), y = DDISP_TENSOR(float, 2);
 *       DDISP_FOR_EACH_ITEM(i) {
 *           float g = y.grad(i);
 *           a.add_grad(i, g * b[i]);
 *           b.add_grad(i, g * a[i]);
 *       }
 *   }
 *
 * docs/kernels.md explains all of it. Declare the entry with DDISP_ENTRY_LOOPS and the code with
 * DDISP_CODE_NULL_SAFE | DDISP_CODE_ANY_LAYOUT | DDISP_CODE_PRE_REDUCES.
 */
#ifndef DIFFDISPATCH_DEVICE_DDISP_CUH
#define DIFFDISPATCH_DEVICE_DDISP_CUH

#include "ddisp_add.cuh"
#include "ddisp_block.h"

/**
 * Defines an entry. After the name: the number of tensor parameters and, if there are scalar
 * parameters, their number. Tensors come first in the kernel's parameters and scalars behind them;
 * for any other order see DDISP_TENSOR_AT.
 */
#define DDISP_KERNEL(name, ...)                                                                    \
    extern "C" __global__ void name(const DDISP_GRID_CONSTANT                                      \
                                    typename ddisp::passed<__VA_ARGS__>::type ddisp_argument)

/** The tensor of parameter i, a number. type: float, double, f16, bf16 (also f32, f64), u8 to i64,
 * any integer type. A const type promises that the launch writes no such element, which is faster.
 */
#define DDISP_TENSOR(type, i) DDISP_TENSOR_AT(type, i, i)
/** The tensor of parameter i that is number k of the tensor parameters. */
#define DDISP_TENSOR_AT(type, i, k)                                                                \
    ddisp::tensor<DDISP_TYPE(type)>(ddisp::block_of(ddisp_argument).tensor[k], DDISP_SWITCH(i))
/** The value of scalar parameter i, a number: f16 and bf16 as float. */
#define DDISP_SCALAR(type, i)                                                                      \
    DDISP_SCALAR_AT(type, (i) - (int)ddisp::block_of(ddisp_argument).tensors)
/** The value of number k of the scalar parameters. */
#define DDISP_SCALAR_AT(type, k)                                                                   \
    ddisp::scalar<DDISP_TYPE(type)>(ddisp::block_of(ddisp_argument).scalar[k])

/** Number of work items of the launch. */
#define DDISP_ITEMS (ddisp::block_of(ddisp_argument).head.items)
/** Loops over the work items of this thread, for any count and any grid. */
#define DDISP_FOR_EACH_ITEM(i)                                                                     \
    for (uint64_t i = ddisp::first_item(); i < DDISP_ITEMS; i += ddisp::item_step())

/** 0 in variants where parameter i has no gradient, else 1: a macro given to NVRTC, or a line of
 * PTX that the library rewrites. */
#define DDISP_SWITCH(i)       ddisp::detail::on<(i), DDISP_STRING(DDISP_SWITCH_##i)[0]>()
#define DDISP_STRING(text)    DDISP_STRING_OF(text)
#define DDISP_STRING_OF(text) #text

/* The type that a name such as f16 stands for; other names stand for themselves. */
#define DDISP_TYPE(type)                  DDISP_SECOND(DDISP_TYPE_##type, type, )
#define DDISP_SECOND(...)                 DDISP_SECOND_OF(__VA_ARGS__)
#define DDISP_SECOND_OF(first, type, ...) type
#define DDISP_TYPE_f16                    , ddisp_f16
#define DDISP_TYPE_bf16                   , ddisp_bf16
#define DDISP_TYPE_f32                    , float
#define DDISP_TYPE_f64                    , double
#define DDISP_TYPE_u8                     , unsigned char
#define DDISP_TYPE_i8                     , signed char
#define DDISP_TYPE_u16                    , unsigned short
#define DDISP_TYPE_i16                    , short
#define DDISP_TYPE_u32                    , unsigned
#define DDISP_TYPE_i32                    , int
#define DDISP_TYPE_u64                    , unsigned long long
#define DDISP_TYPE_i64                    , long long

/* The block stays in constant memory when its address is taken. */
#if (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 700) && defined(__CUDACC_VER_MAJOR__) &&          \
    __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1107
#define DDISP_GRID_CONSTANT __grid_constant__
#else
#define DDISP_GRID_CONSTANT
#endif

/** Elements of 16 bits; computed with as float. __half and __nv_bfloat16 serve too where their
 * headers are included before this one. */
struct ddisp_f16 {
    unsigned short bits;
};
struct ddisp_bf16 {
    unsigned short bits;
};

/** A multi-index, outermost first; see ddisp_at. */
template <int count> struct ddisp_index {
    int64_t at[count];
};

/** The element at (i, j, ...), to be given instead of an item: m[ddisp_at(row, column)]. As many
 * numbers as the tensor has dimensions; missing ones are 0. */
template <typename... T> DDISP_DEVICE ddisp_index<sizeof...(T)> ddisp_at(T... numbers)
{
    return {{(int64_t)numbers...}};
}

namespace ddisp
{

/* ---- the argument block */

template <int tensor_count, int scalar_count = 0> struct block {
    enum { tensors = tensor_count, scalars = scalar_count };
    ddisp_block head;
    ddisp_device_tensor tensor[tensor_count];
    uint64_t scalar[scalar_count];
};
template <int tensor_count> struct block<tensor_count, 0> {
    enum { tensors = tensor_count, scalars = 0 };
    ddisp_block head;
    ddisp_device_tensor tensor[tensor_count];
};

/* By value up to 4096 bytes, else by pointer. */
template <bool by_value, typename T> struct passed_as {
    typedef T type;
};
template <typename T> struct passed_as<false, T> {
    typedef const T *type;
};
template <int tensors, int scalars = 0> struct passed {
    typedef block<tensors, scalars> whole;
    typedef typename passed_as<sizeof(whole) <= 4096, whole>::type type;
};

template <int tensors, int scalars>
DDISP_DEVICE const block<tensors, scalars> &block_of(const block<tensors, scalars> &argument)
{
    return argument;
}
template <int tensors, int scalars>
DDISP_DEVICE const block<tensors, scalars> &block_of(const block<tensors, scalars> *argument)
{
    return *argument;
}

/* ---- work items */

DDISP_DEVICE uint64_t group_threads()
{
    return (uint64_t)blockDim.x * blockDim.y * blockDim.z;
}
DDISP_DEVICE uint64_t first_item()
{
    const uint64_t group = ((uint64_t)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    return group * group_threads() +
           ((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x);
}
DDISP_DEVICE uint64_t item_step()
{
    return (uint64_t)gridDim.x * gridDim.y * gridDim.z * group_threads();
}

namespace detail
{

template <int i, char given> DDISP_DEVICE unsigned on()
{
    if (given == '0' || given == '1')
        return given == '1';
    unsigned result; /* must be one whole line of PTX; gone where nobody asks */
    asm("mov.u32 %0, 1; // DDISP_SWITCH(%1)" : "=r"(result) : "n"(i));
    return result;
}

/* ---- reading what nobody writes. The assembly is not volatile, unlike that of __ldg: it goes
 * where nobody needs the value, and comes before adds to other memory. */

#define DDISP_CONSTANT_AT(T, word_type, word, letter)                                              \
    DDISP_DEVICE T constant_at(const T *from)                                                      \
    {                                                                                              \
        word_type v;                                                                               \
        asm("ld.global.nc." word " %0, [%1];" : "=" letter(v) : "l"(from));                        \
        return (T)v;                                                                               \
    }
DDISP_CONSTANT_AT(float, float, "f32", "f")
DDISP_CONSTANT_AT(double, double, "f64", "d")
DDISP_CONSTANT_AT(char, int, "s8", "r")
DDISP_CONSTANT_AT(signed char, int, "s8", "r")
DDISP_CONSTANT_AT(unsigned char, unsigned, "u8", "r")
DDISP_CONSTANT_AT(short, short, "s16", "h")
DDISP_CONSTANT_AT(unsigned short, unsigned short, "u16", "h")
DDISP_CONSTANT_AT(int, int, "s32", "r")
DDISP_CONSTANT_AT(unsigned, unsigned, "u32", "r")
DDISP_CONSTANT_AT(long, long, "s64", "l")
DDISP_CONSTANT_AT(unsigned long, unsigned long, "u64", "l")
DDISP_CONSTANT_AT(long long, long long, "s64", "l")
DDISP_CONSTANT_AT(unsigned long long, unsigned long long, "u64", "l")

/* ---- elements: how they are stored, what is computed with, and what gradients are made of */

template <typename T> struct element {
    typedef T stored;
    typedef T value;
    enum { differentiable = false, halves = false };
    static DDISP_DEVICE T load(const T *from)
    {
        return *from;
    }
    static DDISP_DEVICE T load_constant(const T *from)
    {
        return constant_at(from);
    }
    static DDISP_DEVICE void store(T *to, T v)
    {
        *to = v;
    }
};
template <> struct element<bool> { /* one byte, 0 or 1 */
    typedef unsigned char stored;
    typedef bool value;
    enum { differentiable = false, halves = false };
    static DDISP_DEVICE bool load(const unsigned char *from)
    {
        return *from != 0;
    }
    static DDISP_DEVICE bool load_constant(const unsigned char *from)
    {
        return constant_at(from) != 0;
    }
    static DDISP_DEVICE void store(unsigned char *to, bool v)
    {
        *to = v;
    }
};
template <typename Cell> struct whole_element : element<typename Cell::value> {
    typedef Cell own_cell;
    typedef Cell wide_cell;
    enum { differentiable = true, halves = false };
};
template <typename Cell> struct half_element {
    typedef unsigned short stored;
    typedef float value;
    typedef Cell own_cell;
    typedef cell_f32 wide_cell;
    enum { differentiable = true, halves = true };
    static DDISP_DEVICE float load(const unsigned short *from)
    {
        return Cell::unpack(*from);
    }
    static DDISP_DEVICE float load_constant(const unsigned short *from)
    {
        return Cell::unpack(constant_at(from));
    }
    static DDISP_DEVICE void store(unsigned short *to, float v)
    {
        *to = Cell::pack(v);
    }
};
template <typename Element> struct read_only : Element {
    static DDISP_DEVICE typename Element::value load(const typename Element::stored *from)
    {
        return Element::load_constant(from);
    }
};
template <typename T> struct kind_of {
    typedef element<T> type;
    enum { is_const = false };
};
template <typename T> struct kind_of<const T> {
    typedef read_only<typename kind_of<T>::type> type;
    enum { is_const = true };
};
template <> struct kind_of<float> {
    typedef whole_element<cell_f32> type;
    enum { is_const = false };
};
template <> struct kind_of<double> {
    typedef whole_element<cell_f64> type;
    enum { is_const = false };
};
template <> struct kind_of<ddisp_f16> {
    typedef half_element<cell_f16> type;
    enum { is_const = false };
};
template <> struct kind_of<ddisp_bf16> {
    typedef half_element<cell_bf16> type;
    enum { is_const = false };
};
#ifdef __CUDA_FP16_TYPES_EXIST__
template <> struct kind_of<__half> : kind_of<ddisp_f16> {
};
#endif
#ifdef __CUDA_BF16_TYPES_EXIST__
template <> struct kind_of<__nv_bfloat16> : kind_of<ddisp_bf16> {
};
#endif

/* ---- where elements lie */

enum { dense, constant, strided };

DDISP_DEVICE int layout_of(const ddisp_device_tensor &view, const int64_t *stride)
{
    int64_t expected = 1;
    bool is_dense = true, is_constant = true;
#pragma unroll 1
    for (int d = (int)view.rank - 1; d >= 0; d--) {
        if (view.shape[d] == 1)
            continue;
        is_dense = is_dense && stride[d] == expected;
        is_constant = is_constant && stride[d] == 0;
        expected *= view.shape[d];
    }
    return is_constant ? constant : is_dense ? dense : strided;
}

DDISP_DEVICE int cells_of(const ddisp_device_tensor &view)
{
    uint64_t cells = 1;
#pragma unroll 1
    for (int d = (int)view.rank - 1; d >= 0; d--)
        if (view.add_stride[d] != 0 && cells <= most_few_cells)
            cells *= (uint64_t)view.shape[d];
    return cells == 1 ? one_cell : cells <= most_few_cells ? few_cells : many_cells;
}

/* Where item lies, counted in row-major order. */
DDISP_DEVICE uint64_t offset_of(const ddisp_device_tensor &view, const int64_t *stride, int layout,
                                uint64_t item)
{
    if (layout == dense)
        return item;
    if (layout == constant)
        return 0;
    int64_t offset = 0;
#pragma unroll 1
    for (int d = (int)view.rank - 1; d > 0; d--) {
        const uint64_t extent = (uint64_t)view.shape[d];
        const uint64_t above = item / extent; /* compilers divide by 32 bits where that is enough */
        offset += (int64_t)(item - above * extent) * stride[d];
        item = above;
    }
    return (uint64_t)(offset + (int64_t)item * stride[0]);
}

template <int count>
DDISP_DEVICE uint64_t offset_of(const ddisp_device_tensor &, const int64_t *stride, int,
                                const ddisp_index<count> &index)
{
    int64_t offset = 0;
#pragma unroll
    for (int d = 0; d < count; d++)
        offset += index.at[d] * stride[d];
    return (uint64_t)offset;
}

} /* namespace detail */

/* ---- tensors */

/**
 * A tensor parameter. Where `at` is taken: an item, counted in row-major order and below numel(),
 * or a multi-index (ddisp_at).
 */
template <typename T> class tensor
{
    typedef typename detail::kind_of<T>::type element;
    typedef typename element::stored stored;

  public:
    /** What elements are computed with: T, or float where T has 16 bits. */
    typedef typename element::value value;

    DDISP_DEVICE tensor(const ddisp_device_tensor &view, unsigned on)
        : view_(&view), on_(on), data_layout_(detail::layout_of(view, view.stride)),
          add_layout_(on ? detail::layout_of(view, view.add_stride) : 0),
          read_layout_(on ? detail::layout_of(view, view.read_stride) : 0),
          cells_(on ? detail::cells_of(view) : 0)
    {
    }

    DDISP_DEVICE int rank() const
    {
        return (int)view_->rank;
    }
    DDISP_DEVICE int64_t shape(int dimension) const
    {
        return view_->shape[dimension];
    }
    DDISP_DEVICE int64_t numel() const
    {
        int64_t product = 1;
#pragma unroll 1
        for (int d = 0; d < rank(); d++)
            product *= shape(d);
        return product;
    }

    template <typename At> DDISP_DEVICE value operator[](const At &at) const
    {
        return element::load(detail::global<const stored>(view_->data) +
                             detail::offset_of(*view_, view_->stride, data_layout_, at));
    }
    template <typename At> DDISP_DEVICE void store(const At &at, value v) const
    {
        static_assert(!detail::kind_of<T>::is_const, "the tensor is const");
        element::store(detail::global<stored>(view_->data) +
                           detail::offset_of(*view_, view_->stride, data_layout_, at),
                       v);
    }

    /** Whether add_grad does anything: what is only computed for it can be left out. */
    DDISP_DEVICE bool wants_grad() const
    {
        return on_ && view_->grad_add;
    }
    /** Whether there is an upstream gradient. */
    DDISP_DEVICE bool has_grad() const
    {
        return on_ && view_->grad_read;
    }

    /** The upstream gradient, 0 where there is none. */
    template <typename At> DDISP_DEVICE value grad(const At &at) const
    {
        static_assert(element::differentiable, "only f16, bf16, f32 and f64 have gradients");
        if (!has_grad())
            return value(0);
        const uint64_t offset = detail::offset_of(*view_, view_->read_stride, read_layout_, at);
        if (element::halves && view_->grad_dtype != detail::dtype_f32)
            return element::load_constant(detail::global<const stored>(view_->grad_read) + offset);
        return detail::constant_at(detail::global<const value>(view_->grad_read) + offset);
    }

    /**
     * Adds v to the gradient, atomically. Nothing where there is none: gone from the code in
     * variants without it, and tested for null. how: DDISP_ADD_...
     */
    template <typename At>
    DDISP_DEVICE void add_grad(const At &at, value v, int how = DDISP_ADD_AUTOMATIC) const
    {
        static_assert(element::differentiable, "only f16, bf16, f32 and f64 have gradients");
        if (!wants_grad())
            return;
        const uint64_t offset = detail::offset_of(*view_, view_->add_stride, add_layout_, at);
        const uint64_t address = view_->grad_add;
        if (view_->flags & DDISP_DEVICE_TENSOR_SHADOW)
            detail::add_shadow(*view_, offset, v, how, cells_);
        else if (element::halves && view_->grad_dtype != detail::dtype_f32)
            detail::add<typename element::own_cell>(address + offset * 2, v, how, cells_);
        else
            detail::add<typename element::wide_cell>(address + offset * sizeof v, v, how, cells_);
    }

  private:
    const ddisp_device_tensor *view_;
    unsigned on_;
    int data_layout_, add_layout_, read_layout_, cells_;
};

template <typename T>
DDISP_DEVICE typename detail::kind_of<T>::type::value scalar(const uint64_t &slot)
{
    typedef typename detail::kind_of<T>::type element;
    return element::load((const typename element::stored *)&slot);
}

} /* namespace ddisp */

#endif
