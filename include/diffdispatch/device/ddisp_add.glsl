// ddisp_add.glsl - how ddisp.glsl adds to a gradient: atomically, in every dtype, in deterministic
// mode, and with the lanes of a subgroup that add to one address summed first. Not for inclusion
// alone.

#ifndef DDISP_CAS
#extension GL_EXT_shader_atomic_float : require
#endif
#extension GL_EXT_shader_atomic_int64 : require
#ifndef DDISP_NO_SUBGROUPS
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
#ifdef DDISP_PARTITIONED
#extension GL_NV_shader_subgroup_partitioned : require
#endif

// How ddisp_add_grad treats lanes of a subgroup that add to one address. Summed first, they cost
// one add.
const int DDISP_ADD_AUTOMATIC = 0; // summed where neighbouring lanes suggest it
const int DDISP_ADD_PLAIN = 1;     // every lane adds for itself: right where addresses differ
const int DDISP_ADD_REDUCED = 2;   // always summed

// ---- one add to memory. Compare-and-swap loops compare bits: values would never be equal on NaN.

void ddisp_atomic_f32(uint64_t address, float v)
{
#ifdef DDISP_CAS
    ddisp_cell_u32 cell = ddisp_cell_u32(address);
    uint seen = cell.value, expected;
    do {
        expected = seen;
        seen = atomicCompSwap(cell.value, expected,
                              floatBitsToUint(uintBitsToFloat(expected) + v));
    } while (seen != expected);
#else
    atomicAdd(ddisp_cell_f32(address).value, v);
#endif
}

void ddisp_atomic_f64(uint64_t address, double v)
{
#ifdef DDISP_CAS
    ddisp_cell_u64 cell = ddisp_cell_u64(address);
    uint64_t seen = cell.value, expected;
    do {
        expected = seen;
        const double sum = packDouble2x32(unpackUint2x32(expected)) + v;
        seen = atomicCompSwap(cell.value, expected, packUint2x32(unpackDouble2x32(sum)));
    } while (seen != expected);
#else
    atomicAdd(ddisp_cell_f64(address).value, v);
#endif
}

// Half of a 32-bit word; the other half stays what it is, also when it changes meanwhile.
#define DDISP_ATOMIC_HALF(type)                                                                    \
    void ddisp_atomic_##type(uint64_t address, float v)                                            \
    {                                                                                              \
        ddisp_cell_u32 cell = ddisp_cell_u32(address & ~3ul);                                      \
        const uint shift = uint(address & 2ul) * 8u;                                               \
        uint seen = cell.value, expected;                                                          \
        do {                                                                                       \
            expected = seen;                                                                       \
            const float before = ddisp_unpack_##type(expected >> shift & 0xffffu);                 \
            const uint sum = ddisp_pack_##type(before + v);                                        \
            seen = atomicCompSwap(cell.value, expected,                                            \
                                  (expected & ~(0xffffu << shift)) | sum << shift);                \
        } while (seen != expected);                                                                \
    }
DDISP_ATOMIC_HALF(f16)
DDISP_ATOMIC_HALF(bf16)

#ifdef DDISP_DETERMINISTIC
void ddisp_atomic_i64(uint64_t address, int64_t v)
{
    atomicAdd(ddisp_cell_u64(address).value, uint64_t(v));
}
#endif

// ---- lanes that add to one address

#ifndef DDISP_NO_SUBGROUPS
// Whether two neighbouring active lanes have one key: so runs of equal addresses are found.
bool ddisp_lanes_meet(uvec2 key)
{
    const uint next = gl_SubgroupInvocationID + 1u;
    const uvec2 other = subgroupShuffle(key, next % gl_SubgroupSize);
    const bool same = next < gl_SubgroupSize && subgroupBallotBitExtract(subgroupBallot(true), next);
    return subgroupAny(same && other == key);
}

#ifdef DDISP_PARTITIONED
#define DDISP_SUM(v, peers) subgroupPartitionedAddNV(v, peers)
#else
#define DDISP_SUM(v, peers) subgroupAdd(v)
#endif
float ddisp_sum(float v, uvec4 peers)
{
    return DDISP_SUM(v, peers);
}
double ddisp_sum(double v, uvec4 peers)
{
    return DDISP_SUM(v, peers);
}
// In three parts, since 64-bit integers in subgroup operations are a feature of their own. Sums of
// 22 bits over up to 1024 lanes fit 32.
int64_t ddisp_sum(int64_t v, uvec4 peers)
{
    const uint64_t bits = uint64_t(v), part = 0x3ffffful;
    const uint64_t low = DDISP_SUM(uint(bits & part), peers);
    const uint64_t middle = DDISP_SUM(uint(bits >> 22 & part), peers);
    const uint64_t high = DDISP_SUM(uint(bits >> 44), peers);
    return int64_t(low + (middle << 22) + (high << 44));
}
#endif

// Adds v at address. Every sum is taken over the lanes that are active at that instruction, and the
// one that adds is chosen in the same place, so it does not matter in which branch the caller is.
// Without partitions, each round serves all lanes with the address of the first one left; automatic
// treatment stops after a few, and what is left adds for itself.
#if defined(DDISP_NO_SUBGROUPS)
#define DDISP_ADD_OF(type, value_type)                                                             \
    void ddisp_add_##type(uint64_t address, value_type v, int how)                                 \
    {                                                                                              \
        ddisp_atomic_##type(address, v);                                                           \
    }
#elif defined(DDISP_PARTITIONED)
#define DDISP_ADD_OF(type, value_type)                                                             \
    void ddisp_add_##type(uint64_t address, value_type v, int how)                                 \
    {                                                                                              \
        const uvec2 key = unpackUint2x32(address);                                                 \
        if (how == DDISP_ADD_PLAIN || (how == DDISP_ADD_AUTOMATIC && !ddisp_lanes_meet(key))) {    \
            ddisp_atomic_##type(address, v);                                                       \
            return;                                                                                \
        }                                                                                          \
        const uvec4 peers = subgroupPartitionNV(key);                                              \
        const value_type sum = ddisp_sum(v, peers);                                                \
        if (subgroupBallotFindLSB(peers) == gl_SubgroupInvocationID)                               \
            ddisp_atomic_##type(address, sum);                                                     \
    }
#else
#define DDISP_ADD_OF(type, value_type)                                                             \
    void ddisp_add_##type(uint64_t address, value_type v, int how)                                 \
    {                                                                                              \
        const uvec2 key = unpackUint2x32(address);                                                 \
        int rounds = how == DDISP_ADD_PLAIN ? 0 : how == DDISP_ADD_REDUCED ? 1024 : 4;             \
        if (how == DDISP_ADD_AUTOMATIC && !ddisp_lanes_meet(key))                                  \
            rounds = 0;                                                                            \
        bool done = false;                                                                         \
        for (; rounds > 0 && !done; rounds--) {                                                    \
            if (subgroupBroadcastFirst(key) == key) {                                              \
                const value_type sum = ddisp_sum(v, uvec4(0));                                     \
                if (subgroupElect())                                                               \
                    ddisp_atomic_##type(address, sum);                                             \
                done = true;                                                                       \
            }                                                                                      \
        }                                                                                          \
        if (!done)                                                                                 \
            ddisp_atomic_##type(address, v);                                                       \
    }
#endif
DDISP_ADD_OF(f16, float)
DDISP_ADD_OF(bf16, float)
DDISP_ADD_OF(f32, float)
DDISP_ADD_OF(f64, double)

// ---- deterministic mode: integers add up to the same in every order. All on bits, so that f32
// needs no double arithmetic.

const uint DDISP_DEVICE_TENSOR_SHADOW = 4u;
const uint DDISP_DEVICE_TENSOR_BOUND = 8u;

#ifdef DDISP_DETERMINISTIC
DDISP_ADD_OF(i64, int64_t)

// mantissa / 2^shift, to nearest even. mantissa has at most 53 bits.
uint64_t ddisp_shifted(uint64_t mantissa, int shift)
{
    if (shift <= 0)
        return mantissa << -shift;
    if (shift > 63)
        return 0ul;
    const uint64_t result = mantissa >> shift;
    const uint64_t lost = mantissa - (result << shift), middle = 1ul << (shift - 1);
    return lost > middle || (lost == middle && (result & 1ul) != 0ul) ? result + 1ul : result;
}

// Says that a value could not be added: bit 0, it is not finite; bit 1, it is too large.
void ddisp_refuse(uint tensor, uint flag)
{
    atomicOr(ddisp_cell_u32(DDISP_BLOCK.tensors[tensor].sticky).value, flag);
}

// Log2 of a power of two, given as the bits of a double.
int ddisp_log2(uint64_t bits)
{
    return int(uint(bits >> 52) & 0x7ffu) - 1023;
}
int ddisp_scale(uint tensor)
{
    return ddisp_log2(DDISP_BLOCK.tensors[tensor].scale);
}

// mantissa * 2^exponent is above the limit; without one, not below 2^62
bool ddisp_too_large(uint tensor, uint64_t mantissa, int exponent)
{
    const uint64_t limit = DDISP_BLOCK.tensors[tensor].limit;
    if (limit == 0ul)
        return mantissa != 0ul && exponent >= 0 &&
               (exponent >= 62 || mantissa >> (62 - exponent) != 0ul);
    const int room = ddisp_log2(limit) - exponent;
    return room < 63 && (room < 0 ? mantissa != 0ul : mantissa > 1ul << room);
}

// When only a bound is looked for: the bits of a magnitude. Few are larger than all before.
bool ddisp_bound(uint tensor, uint64_t bits)
{
    if ((DDISP_BLOCK.tensors[tensor].flags & DDISP_DEVICE_TENSOR_BOUND) == 0u)
        return false;
    const uint64_t sticky = DDISP_BLOCK.tensors[tensor].sticky;
    ddisp_cell_u64 largest = ddisp_cell_u64(sticky + 8ul);
    if (largest.value < bits)
        atomicMax(largest.value, bits);
    ddisp_add_i64(sticky + 16ul, 1l, DDISP_ADD_REDUCED);
    return true;
}

void ddisp_shadow_f32(uint tensor, uint64_t offset, float v, int how)
{
    const uint bits = floatBitsToUint(v), biased = bits >> 23 & 0xffu;
    const uint64_t mantissa = uint64_t((bits & 0x7fffffu) | (biased != 0u ? 0x800000u : 0u));
    const int exponent = int(max(biased, 1u)) - 150 + ddisp_scale(tensor);
    if (ddisp_bound(tensor, uint64_t(bits & 0x7fffffffu)))
        return;
    if (biased == 0xffu || ddisp_too_large(tensor, mantissa, exponent)) {
        ddisp_refuse(tensor, biased == 0xffu ? 1u : 2u);
        return;
    }
    const int64_t size = int64_t(ddisp_shifted(mantissa, -exponent));
    ddisp_add_i64(DDISP_BLOCK.tensors[tensor].grad_add + 8ul * offset,
                  bits >> 31 != 0u ? -size : size, how);
}

void ddisp_shadow_f64(uint tensor, uint64_t offset, double v, int how)
{
    const uint64_t bits = packUint2x32(unpackDouble2x32(v));
    const uint biased = uint(bits >> 52) & 0x7ffu;
    const uint64_t mantissa = (bits & 0xffffffffffffful) | (biased != 0u ? 1ul << 52 : 0ul);
    const int exponent = int(max(biased, 1u)) - 1075 + ddisp_scale(tensor);
    if (ddisp_bound(tensor, bits & 0x7ffffffffffffffful))
        return;
    if (biased == 0x7ffu || ddisp_too_large(tensor, mantissa, exponent)) {
        ddisp_refuse(tensor, biased == 0x7ffu ? 1u : 2u);
        return;
    }
    const uint64_t whole = exponent >= 0     ? mantissa << exponent
                           : exponent >= -63 ? mantissa >> -exponent
                                             : 0ul;
    const uint64_t left = exponent >= 0     ? 0ul
                          : exponent >= -63 ? mantissa - (whole << -exponent)
                                            : mantissa;
    int64_t first = int64_t(whole), second = int64_t(ddisp_shifted(left, -exponent - 30));
    if (bits >> 63 != 0ul) { // counted upwards from the floor
        first = left != 0ul ? -first - 1l : -first;
        second = left != 0ul ? (1l << 30) - second : 0l;
    }
    const uint64_t address = DDISP_BLOCK.tensors[tensor].grad_add + 16ul * offset;
    ddisp_add_i64(address, first, how);
    ddisp_add_i64(address + 8ul, second, how);
}
#define DDISP_SHADOW(type)                                                                         \
    if ((DDISP_BLOCK.tensors[tensor].flags & DDISP_DEVICE_TENSOR_SHADOW) != 0u) {                  \
        ddisp_shadow_##type(tensor, offset, v, how);                                               \
        return;                                                                                    \
    }
#else
#define DDISP_SHADOW(type)
#endif

// ---- gradients of tensors, by the dtype of the data

const uint DDISP_DTYPE_F32 = 12u;

void ddisp_accumulate_f32(uint tensor, uint64_t offset, float v, int how)
{
    DDISP_SHADOW(f32)
    ddisp_add_f32(DDISP_BLOCK.tensors[tensor].grad_add + 4ul * offset, v, how);
}
void ddisp_accumulate_f64(uint tensor, uint64_t offset, double v, int how)
{
    DDISP_SHADOW(f64)
    ddisp_add_f64(DDISP_BLOCK.tensors[tensor].grad_add + 8ul * offset, v, how);
}
float ddisp_upstream_f32(uint tensor, uint64_t offset)
{
    return ddisp_read_f32(DDISP_BLOCK.tensors[tensor].grad_read + 4ul * offset).value;
}
double ddisp_upstream_f64(uint tensor, uint64_t offset)
{
    return ddisp_read_f64(DDISP_BLOCK.tensors[tensor].grad_read + 8ul * offset).value;
}

// Gradients of 16-bit tensors are f32, or have the type of the data.
#define DDISP_HALF_GRADIENTS(type)                                                                 \
    void ddisp_accumulate_##type(uint tensor, uint64_t offset, float v, int how)                   \
    {                                                                                              \
        DDISP_SHADOW(f32)                                                                          \
        const uint64_t address = DDISP_BLOCK.tensors[tensor].grad_add;                             \
        if (DDISP_BLOCK.tensors[tensor].grad_dtype == DDISP_DTYPE_F32)                             \
            ddisp_add_f32(address + 4ul * offset, v, how);                                         \
        else                                                                                       \
            ddisp_add_##type(address + 2ul * offset, v, how);                                      \
    }                                                                                              \
    float ddisp_upstream_##type(uint tensor, uint64_t offset)                                      \
    {                                                                                              \
        if (DDISP_BLOCK.tensors[tensor].grad_dtype == DDISP_DTYPE_F32)                             \
            return ddisp_upstream_f32(tensor, offset);                                             \
        return ddisp_get_##type(DDISP_BLOCK.tensors[tensor].grad_read + 2ul * offset);             \
    }
DDISP_HALF_GRADIENTS(f16)
DDISP_HALF_GRADIENTS(bf16)
