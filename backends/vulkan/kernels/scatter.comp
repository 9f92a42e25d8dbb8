#version 460
// scatter.comp - scatter-add with sums in f32 or f64: in the order in which invocations come along.
#extension GL_GOOGLE_include_directive : require
#ifdef NATIVE
#define NATIVE_ADD
#endif
#include "subgroups.glsl"
#include "items.glsl"

#define SUM REAL
REAL zero() { return REAL(0); }
bool is_zero(REAL value) { return value == REAL(0); }
REAL plus(REAL a, REAL b) { return a + b; }
REAL from_lane(REAL value, uint lane) { return subgroupShuffle(value, lane); }
REAL from_other(REAL value, uint apart) { return subgroupShuffleXor(value, apart); }
REAL take(REAL value) { return value; }
bool is_wanted() { return true; }
bool counts() { return true; }
void mark(uint cell) {}
void pass_by() {}
void begin() {}
void end() {}
void sift(inout REAL value[ITEMS]) {}
REAL sift_one(REAL value) { return value; }
void add_memory(uint64_t cell, REAL value) { add_number(TO, memory_of(cell), value); }

#if defined(NATIVE) || defined(DOUBLE)
// without native adds the host shares no cells of f64
shared REAL bins[SHARED];
void clear_shared(uint i) { bins[i] = REAL(0); }
REAL from_shared(uint i) { return bins[i]; }
#ifdef NATIVE
void add_shared(uint i, REAL value) { atomicAdd(bins[i], value); }
#else
void add_shared(uint i, REAL value) { }
#endif
#else
shared uint bins[SHARED];
void clear_shared(uint i) { bins[i] = 0u; }
REAL from_shared(uint i) { return uintBitsToFloat(bins[i]); }
void add_shared(uint i, REAL value)
{
    uint old = bins[i], seen;
    do {
        seen = old;
        old = atomicCompSwap(bins[i], seen, floatBitsToUint(uintBitsToFloat(seen) + value));
    } while (old != seen);
}
#endif

#include "scatter.glsl"
