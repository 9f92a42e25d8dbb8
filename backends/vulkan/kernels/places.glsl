// places.glsl - places of elements in strided memory: numbers of elements become offsets. The host
// has collapsed and sorted the axes; the last is the innermost. vulkan_operations.h has the same struct.
layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer Axes {
    uint rank, narrow;
    uint64_t count;
    uint64_t extent[8];
    int64_t stride[24]; // of three operands, eight each
};
const uint AXES_BYTES = 272u;

// Offsets of element n for each operand.
void place(Axes axes, uint64_t n, out int64_t one, out int64_t two, out int64_t three)
{
    one = two = three = 0l;
    uint i = axes.rank - 1u;
    if (axes.narrow != 0u) {
        uint rest = uint(n);
        for (; i > 0u; i--) {
            uint extent = uint(axes.extent[i]), over = rest / extent;
            int64_t at = int64_t(rest - over * extent);
            one += at * axes.stride[i];
            two += at * axes.stride[8u + i];
            three += at * axes.stride[16u + i];
            rest = over;
        }
        n = uint64_t(rest);
    } else {
        for (; i > 0u; i--) {
            uint64_t extent = axes.extent[i], over = n / extent;
            int64_t at = int64_t(n - over * extent);
            one += at * axes.stride[i];
            two += at * axes.stride[8u + i];
            three += at * axes.stride[16u + i];
            n = over;
        }
    }
    one += int64_t(n) * axes.stride[0];
    two += int64_t(n) * axes.stride[8];
    three += int64_t(n) * axes.stride[16];
}
