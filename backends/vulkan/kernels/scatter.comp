#version 460
// scatter.comp - adds source elements into the destination at the places that an index says. Lanes of a
// subgroup that all add to one place are summed first. Indices out of range are counted.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "numbers.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 1) const uint DESTINATION = 12;
layout(constant_id = 2) const uint SOURCE = 12;
layout(constant_id = 3) const uint INDEX = 7; // i32, or 9: i64

layout(buffer_reference, buffer_reference_align = 8) buffer Counter { uint low, high; };

int64_t index_at(int64_t element)
{
    if (INDEX == 7u)
        return int64_t(int(Word(work.index + uint64_t(element * int64_t(4))).value));
    uint64_t address = work.index + uint64_t(element * int64_t(8));
    return int64_t(packUint2x32(uvec2(Word(address).value, Word(address + uint64_t(4)).value)));
}

void count_skipped(uint skipped)
{
    if (work.skipped == uint64_t(0) || skipped == 0u)
        return;
    Counter counter = Counter(work.skipped);
    uint before = atomicAdd(counter.low, skipped);
    if (before + skipped < before)
        atomicAdd(counter.high, 1u);
}

void main()
{
    uint64_t stride = uint64_t(gl_NumWorkGroups.x) * uint64_t(gl_WorkGroupSize.x);
    uint skipped = 0u;
    for (uint64_t n = gl_GlobalInvocationID.x; n < work.cells; n += stride) {
        int64_t to = 0, from = 0, at = 0;
        uint64_t rest = n;
        for (uint i = work.rank; i > 0u;) {
            i--;
            uint64_t extent = uint64_t(work.shape[i]);
            int64_t k = int64_t(rest % extent);
            rest /= extent;
            from += k * work.source_stride[i];
            at += k * work.index_stride[i];
            if (i != work.axis)
                to += k * work.destination_stride[i];
        }
        int64_t index = index_at(at);
        bool inside = uint64_t(index) < uint64_t(work.axis_extent); // negative ones are huge; one signed comparison with 0 went wrong on lavapipe 22.3
        if (!inside) {
            skipped++;
            continue;
        }
        to += index * work.destination_stride[work.axis];
        REAL value = load_number(SOURCE, work.source + uint64_t(from * int64_t(size_of(SOURCE))));
        uint64_t target = work.destination + uint64_t(to * int64_t(size_of(DESTINATION)));
        uvec2 halves = unpackUint2x32(target);
        if (subgroupAllEqual(halves.x) && subgroupAllEqual(halves.y)) {
            REAL sum = subgroupAdd(value);
            if (subgroupElect())
                add_number(DESTINATION, target, sum);
        } else {
            add_number(DESTINATION, target, value);
        }
    }
    count_skipped(skipped);
}
