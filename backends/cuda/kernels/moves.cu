// moves.cu - fills and copies of bits in any layout.
#include "each.cuh"

template <typename T, int N>
DEVICE void put_bits(char *const (&to)[N], const T (&bits)[N], const bool (&is_there)[N])
{
#pragma unroll
    for (int k = 0; k < N; k++)
        if (is_there[k])
            *(T *)to[k] = bits[k];
}

template <typename T, int N>
DEVICE void move_bits(char *const (&to)[N], const char *const (&from)[N], const bool (&is_there)[N])
{
    T bits[N];
#pragma unroll
    for (int k = 0; k < N; k++)
        bits[k] = *(const T *)from[k];
    put_bits(to, bits, is_there);
}

template <typename T, int N>
DEVICE void set_bits(char *const (&to)[N], uint64_t value, const bool (&is_there)[N])
{
    T bits[N];
#pragma unroll
    for (int k = 0; k < N; k++)
        bits[k] = (T)value;
    put_bits(to, bits, is_there);
}

struct filling {
    template <int N>
    DEVICE void run(const work_each &work, char *const (&to)[N], const char *const (&)[N],
                    const bool (&is_there)[N])
    {
        if (work.element_bytes == 1)
            set_bits<uint8_t>(to, work.bits, is_there);
        else if (work.element_bytes == 2)
            set_bits<uint16_t>(to, work.bits, is_there);
        else if (work.element_bytes == 4)
            set_bits<uint32_t>(to, work.bits, is_there);
        else
            set_bits<uint64_t>(to, work.bits, is_there);
    }
};

struct copying {
    template <int N>
    DEVICE void run(const work_each &work, char *const (&to)[N], const char *const (&from)[N],
                    const bool (&is_there)[N])
    {
        if (work.element_bytes == 1)
            move_bits<uint8_t>(to, from, is_there);
        else if (work.element_bytes == 2)
            move_bits<uint16_t>(to, from, is_there);
        else if (work.element_bytes == 4)
            move_bits<uint32_t>(to, from, is_there);
        else
            move_bits<uint64_t>(to, from, is_there);
    }
};

KERNEL(ddisp_fill, work_each)
{
    each<filling>(work);
}

KERNEL(ddisp_copy, work_each)
{
    each<copying>(work);
}
