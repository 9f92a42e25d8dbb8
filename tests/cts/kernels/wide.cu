// y = 1 a + 2 b + ... + 9 i + the sum of 16 scalars, opaque.
#include "cts_cuda.cuh"

KERNEL(wide_forward, 10, 16)
{
    float sum = 0;
    for (int s = 0; s < 16; s++)
        sum += __uint_as_float((unsigned)block.scalar[s]);
    for (ITEMS(i)) {
        float y = sum;
        for (int p = 0; p < 9; p++)
            y += (float)(p + 1) * *data<float>(block.tensor[p], i);
        *data<float>(block.tensor[9], i) = y;
    }
}

KERNEL(wide_backward, 10, 16)
{
    for (ITEMS(i)) {
        for (int p = 0; p < 9; p++)
            add_grad(block.tensor[p], i, (float)(p + 1) * upstream<float>(block.tensor[9], i));
    }
}
