#version 460
// elements.comp - element-wise fill, store and add over tensors of any strides; axes from `kept` on are
// summed. A group sums one cell, or one of `splits` parts of it, and adds once.
#extension GL_GOOGLE_include_directive : require
#include "numbers.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint OPERATION = 0; // 0 add, 1 store, 2 fill, 3 copy bits
layout(constant_id = 1) const uint DESTINATION = 12;
layout(constant_id = 2) const uint SOURCE = 12;

shared REAL partial[256];

void offsets(uint64_t n, uint first, uint last, inout int64_t to, inout int64_t from)
{
    for (uint i = last; i > first;) {
        i--;
        uint64_t extent = uint64_t(work.shape[i]);
        int64_t at = int64_t(n % extent);
        n /= extent;
        to += at * work.destination_stride[i];
        from += at * work.source_stride[i];
    }
}

void store_bits(uint64_t address, uint size, uint64_t bits)
{
    uvec2 halves = unpackUint2x32(bits);
    if (size == 8u) {
        Word(address).value = halves.x;
        Word(address + uint64_t(4)).value = halves.y;
    } else if (size == 4u) {
        Word(address).value = halves.x;
    } else if (size == 2u) {
        store_half(address, halves.x & 0xFFFFu);
    } else {
        Word word = Word(address & ~uint64_t(3));
        uint shift = uint(address & uint64_t(3)) * 8u;
        atomicAnd(word.value, ~(0xFFu << shift));
        atomicOr(word.value, (halves.x & 0xFFu) << shift);
    }
}

uint64_t load_bits(uint64_t address, uint size)
{
    if (size == 8u)
        return packUint2x32(uvec2(Word(address).value, Word(address + uint64_t(4)).value));
    uint word = Word(address & ~uint64_t(3)).value;
    return uint64_t(word >> uint(address & uint64_t(3)) * 8u);
}

void each()
{
    uint64_t stride = uint64_t(gl_NumWorkGroups.x) * uint64_t(gl_WorkGroupSize.x);
    for (uint64_t n = gl_GlobalInvocationID.x; n < work.cells; n += stride) {
        int64_t to = 0, from = 0;
        offsets(n, 0u, work.kept, to, from);
        uint64_t target = work.destination + uint64_t(to * int64_t(size_of(DESTINATION)));
        uint64_t origin = work.source + uint64_t(from * int64_t(size_of(SOURCE)));
        if (OPERATION == 2u)
            store_bits(target, size_of(DESTINATION), work.bits);
        else if (OPERATION == 3u)
            store_bits(target, size_of(DESTINATION), load_bits(origin, size_of(SOURCE)));
        else if (OPERATION == 1u)
            store_number(DESTINATION, target, alpha() * load_number(SOURCE, origin));
        else
            add_number(DESTINATION, target, alpha() * load_number(SOURCE, origin));
    }
}

void sum_cells()
{
    uint lane = gl_LocalInvocationID.x;
    uint64_t parts = work.cells * work.splits;
    uint64_t length = (work.summed + work.splits - uint64_t(1)) / work.splits;
    for (uint64_t part = gl_WorkGroupID.x; part < parts; part += uint64_t(gl_NumWorkGroups.x)) {
        uint64_t cell = part / work.splits, first = part % work.splits * length;
        uint64_t last = min(first + length, work.summed);
        int64_t to = 0, base = 0;
        offsets(cell, 0u, work.kept, to, base);
        REAL sum = REAL(0);
        for (uint64_t n = first + uint64_t(lane); n < last; n += uint64_t(256)) {
            int64_t unused = 0, from = base;
            offsets(n, work.kept, work.rank, unused, from);
            sum += load_number(SOURCE, work.source + uint64_t(from * int64_t(size_of(SOURCE))));
        }
        partial[lane] = sum;
        barrier();
        for (uint width = 128u; width > 0u; width >>= 1) {
            if (lane < width)
                partial[lane] += partial[lane + width];
            barrier();
        }
        if (lane == 0u && first < last)
            add_number(DESTINATION, work.destination + uint64_t(to * int64_t(size_of(DESTINATION))),
                       alpha() * partial[0]);
        barrier();
    }
}

void main()
{
    if (OPERATION == 0u && work.summed > uint64_t(1))
        sum_cells();
    else
        each();
}
