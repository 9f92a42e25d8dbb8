#version 460
// mul_backward.comp - the kernel `mul` for Vulkan, backward: ga += gy * b, gb += gy * a.
//
// Native float atomics are a capability of the whole module that no specialization can remove, so
// this makes two modules: with them, and with -DCAS a compare-and-swap loop that compares bits.
// Each gradient has a specialization constant as its switch and a null test.
#extension GL_GOOGLE_include_directive : require
#include "mul_block.glsl"

layout(constant_id = 1024) const bool a_has_gradient = true;
layout(constant_id = 1025) const bool b_has_gradient = true;
layout(constant_id = 1026) const bool y_has_gradient = true;

#ifdef CAS
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Word {
    uint value;
};
void add(Float target, float amount)
{
    Word word = Word(uint64_t(target));
    uint seen = word.value;
    uint expected;
    do {
        expected = seen;
        seen = atomicCompSwap(word.value, expected,
                              floatBitsToUint(uintBitsToFloat(expected) + amount));
    } while (seen != expected);
}
#else
#extension GL_EXT_shader_atomic_float : require
void add(Float target, float amount)
{
    atomicAdd(target.value, amount);
}
#endif

void main()
{
    const uint64_t a = block.tensors[0].data, b = block.tensors[1].data;
    const uint64_t gy = block.tensors[2].grad_read;
    const uint64_t ga = block.tensors[0].grad_add, gb = block.tensors[1].grad_add;
    const bool add_a = a_has_gradient && ga != 0ul;
    const bool add_b = b_has_gradient && gb != 0ul;
    // What a frozen input does not need has no say.
    const bool dense_a = !add_a || (dense(0, ADD_DENSE) && dense(1, DENSE));
    const bool dense_b = !add_b || (dense(1, ADD_DENSE) && dense(0, DENSE));

    if (!y_has_gradient || gy == 0ul)
        return;
    if (dense_a && dense_b && dense(2, READ_DENSE) && block.items < 0x40000000ul &&
        item_step() < 0x10000000ul) {
        // Dense items are counted in 32 bits: that leaves registers and time for more loads in flight.
        const uint items = uint(block.items), step = uint(item_step());
        for (uint i = uint(first_item()); i < items; i += step) {
            const uint64_t at = 4ul * uint64_t(i);
            const float g = Float(gy + at).value;
            if (add_a)
                add(Float(ga + at), g * Float(b + at).value);
            if (add_b)
                add(Float(gb + at), g * Float(a + at).value);
        }
        return;
    }
    for (uint64_t i = first_item(); i < block.items; i += item_step()) {
        const float g = element(gy, 2, READ, i).value;
        if (add_a)
            add(element(ga, 0, ADD, i), g * element(b, 1, DATA, i).value);
        if (add_b)
            add(element(gb, 1, ADD, i), g * element(a, 0, DATA, i).value);
    }
}
