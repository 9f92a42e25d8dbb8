// ddisp_elements.glsl - where the elements of a tensor lie, and how each type is read and written.
// Not for inclusion alone.

const int DDISP_DATA = 0, DDISP_ADD = 1, DDISP_READ = 2;    // which strides of a tensor
const int DDISP_DENSE = 0, DDISP_CONSTANT = 1, DDISP_STRIDED = 2; // what they look like

int64_t ddisp_stride(uint tensor, int which, int d)
{
    if (which == DDISP_DATA)
        return DDISP_BLOCK.tensors[tensor].stride[d];
    return which == DDISP_ADD ? DDISP_BLOCK.tensors[tensor].add_stride[d]
                              : DDISP_BLOCK.tensors[tensor].read_stride[d];
}

int ddisp_layout_of(uint tensor, int which)
{
    int64_t expected = 1l;
    bool is_dense = true, is_constant = true;
    for (int d = int(DDISP_BLOCK.tensors[tensor].rank) - 1; d >= 0; d--) {
        const int64_t extent = DDISP_BLOCK.tensors[tensor].shape[d];
        const int64_t stride = ddisp_stride(tensor, which, d);
        if (extent == 1l)
            continue;
        is_dense = is_dense && stride == expected;
        is_constant = is_constant && stride == 0l;
        expected *= extent;
    }
    return is_constant ? DDISP_CONSTANT : is_dense ? DDISP_DENSE : DDISP_STRIDED;
}

// A tensor parameter: its place in the block, its switch, and the layouts of its three parts.
struct ddisp_view {
    uint tensor;
    bool on;
    int data_layout, add_layout, read_layout;
};

ddisp_view ddisp_open(uint tensor, bool on)
{
    ddisp_view view = ddisp_view(tensor, on, ddisp_layout_of(tensor, DDISP_DATA), 0, 0);
    if (on) {
        view.add_layout = ddisp_layout_of(tensor, DDISP_ADD);
        view.read_layout = ddisp_layout_of(tensor, DDISP_READ);
    }
    return view;
}

// Where an item lies, counted in row-major order.
uint64_t ddisp_offset(uint tensor, int which, int layout_, uint64_t item)
{
    if (layout_ == DDISP_DENSE)
        return item;
    if (layout_ == DDISP_CONSTANT)
        return 0ul;
    int64_t offset = 0l;
    for (int d = int(DDISP_BLOCK.tensors[tensor].rank) - 1; d > 0; d--) {
        const uint64_t extent = uint64_t(DDISP_BLOCK.tensors[tensor].shape[d]);
        uint64_t above;
        if (unpackUint2x32(item | extent).y == 0u)
            above = uint64_t(uint(item) / uint(extent));
        else
            above = item / extent;
        offset += int64_t(item - above * extent) * ddisp_stride(tensor, which, d);
        item = above;
    }
    return uint64_t(offset + int64_t(item) * ddisp_stride(tensor, which, 0));
}
uint64_t ddisp_offset(uint tensor, int which, int layout_, ddisp_index index)
{
    int64_t offset = 0l;
    for (int d = 0; d < 8; d++)
        offset += int64_t(index.at[d]) * ddisp_stride(tensor, which, d);
    return uint64_t(offset);
}

// ---- elements

layout(buffer_reference, std430, buffer_reference_align = 1) buffer ddisp_cell_u8 {
    uint8_t value;
};
layout(buffer_reference, std430, buffer_reference_align = 2) buffer ddisp_cell_u16 {
    uint16_t value;
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer ddisp_cell_u32 {
    uint value;
};
layout(buffer_reference, std430, buffer_reference_align = 8) buffer ddisp_cell_u64 {
    uint64_t value;
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer ddisp_cell_f32 {
    float value;
};
layout(buffer_reference, std430, buffer_reference_align = 8) buffer ddisp_cell_f64 {
    double value;
};
// What nobody writes during a launch.
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer ddisp_read_f32 {
    float value;
};
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer ddisp_read_f64 {
    double value;
};

float ddisp_unpack_f16(uint bits)
{
    return unpackHalf2x16(bits).x;
}
// To nearest even, which packHalf2x16 does not promise.
uint ddisp_pack_f16(float v)
{
    const uint bits = floatBitsToUint(v), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u)
        return sign | 0x7e00u;
    if (size >= 0x477ff000u) // 65520 and up
        return sign | 0x7c00u;
    if (size < 0x38800000u) // below 2^-14, in units of 2^-24
        return sign | uint(roundEven(uintBitsToFloat(size) * 16777216.0));
    return sign | (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13;
}
float ddisp_unpack_bf16(uint bits)
{
    return uintBitsToFloat(bits << 16);
}
uint ddisp_pack_bf16(float v)
{
    const uint bits = floatBitsToUint(v);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return bits >> 16 | 0x40u;
    return bits + 0x7fffu + (bits >> 16 & 1u) >> 16;
}

// Reads and writes an element of each type at its address.
float ddisp_get_f32(uint64_t at) { return ddisp_cell_f32(at).value; }
double ddisp_get_f64(uint64_t at) { return ddisp_cell_f64(at).value; }
float ddisp_get_f16(uint64_t at) { return ddisp_unpack_f16(uint(ddisp_cell_u16(at).value)); }
float ddisp_get_bf16(uint64_t at) { return ddisp_unpack_bf16(uint(ddisp_cell_u16(at).value)); }
uint ddisp_get_u8(uint64_t at) { return uint(ddisp_cell_u8(at).value); }
int ddisp_get_i8(uint64_t at) { return bitfieldExtract(int(ddisp_get_u8(at)), 0, 8); }
uint ddisp_get_u16(uint64_t at) { return uint(ddisp_cell_u16(at).value); }
int ddisp_get_i16(uint64_t at) { return bitfieldExtract(int(ddisp_get_u16(at)), 0, 16); }
uint ddisp_get_u32(uint64_t at) { return ddisp_cell_u32(at).value; }
int ddisp_get_i32(uint64_t at) { return int(ddisp_cell_u32(at).value); }
uint64_t ddisp_get_u64(uint64_t at) { return ddisp_cell_u64(at).value; }
int64_t ddisp_get_i64(uint64_t at) { return int64_t(ddisp_cell_u64(at).value); }
void ddisp_put_f32(uint64_t at, float v) { ddisp_cell_f32(at).value = v; }
void ddisp_put_f64(uint64_t at, double v) { ddisp_cell_f64(at).value = v; }
void ddisp_put_f16(uint64_t at, float v) { ddisp_cell_u16(at).value = uint16_t(ddisp_pack_f16(v)); }
void ddisp_put_bf16(uint64_t at, float v)
{
    ddisp_cell_u16(at).value = uint16_t(ddisp_pack_bf16(v));
}
void ddisp_put_u8(uint64_t at, uint v) { ddisp_cell_u8(at).value = uint8_t(v); }
void ddisp_put_i8(uint64_t at, int v) { ddisp_cell_u8(at).value = uint8_t(uint(v)); }
void ddisp_put_u16(uint64_t at, uint v) { ddisp_cell_u16(at).value = uint16_t(v); }
void ddisp_put_i16(uint64_t at, int v) { ddisp_cell_u16(at).value = uint16_t(uint(v)); }
void ddisp_put_u32(uint64_t at, uint v) { ddisp_cell_u32(at).value = v; }
void ddisp_put_i32(uint64_t at, int v) { ddisp_cell_u32(at).value = uint(v); }
void ddisp_put_u64(uint64_t at, uint64_t v) { ddisp_cell_u64(at).value = v; }
void ddisp_put_i64(uint64_t at, int64_t v) { ddisp_cell_u64(at).value = uint64_t(v); }

uint64_t ddisp_scalar_address(uint k)
{
    return uint64_t(DDISP_BLOCK) + 32ul + 320ul * DDISP_BLOCK.tensor_count + 8ul * k;
}
float ddisp_scalar_f32(uint64_t at) { return ddisp_get_f32(at); }
double ddisp_scalar_f64(uint64_t at) { return ddisp_get_f64(at); }
float ddisp_scalar_f16(uint64_t at) { return ddisp_unpack_f16(ddisp_get_u32(at) & 0xffffu); }
float ddisp_scalar_bf16(uint64_t at) { return ddisp_unpack_bf16(ddisp_get_u32(at)); }
uint ddisp_scalar_u8(uint64_t at) { return ddisp_get_u32(at) & 0xffu; }
int ddisp_scalar_i8(uint64_t at) { return bitfieldExtract(ddisp_get_i32(at), 0, 8); }
uint ddisp_scalar_u16(uint64_t at) { return ddisp_get_u32(at) & 0xffffu; }
int ddisp_scalar_i16(uint64_t at) { return bitfieldExtract(ddisp_get_i32(at), 0, 16); }
uint ddisp_scalar_u32(uint64_t at) { return ddisp_get_u32(at); }
int ddisp_scalar_i32(uint64_t at) { return ddisp_get_i32(at); }
uint64_t ddisp_scalar_u64(uint64_t at) { return ddisp_get_u64(at); }
int64_t ddisp_scalar_i64(uint64_t at) { return ddisp_get_i64(at); }
#define ddisp_scalar_float ddisp_scalar_f32
#define ddisp_scalar_double ddisp_scalar_f64
