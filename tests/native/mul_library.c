/*
 * mul_library.c - C functions of somebody else, in a shared object: raw pointers and numbers,
 * nothing of this library. Those with a number at the end of their name add into the gradients of
 * its bits only.
 */
typedef unsigned long long count;

#define VISIBLE __attribute__((visibility("default")))

VISIBLE void mul_forward(const float *a, const float *b, float *y, count n);
VISIBLE void mul_backward(const float *a, const float *b, const float *gy, float *ga, float *gb,
                          count n);
VISIBLE void mul_backward_5(const float *a, const float *b, const float *gy, float *ga, float *gb,
                            count n);
VISIBLE void mul_backward_6(const float *a, const float *b, const float *gy, float *ga, float *gb,
                            count n);
VISIBLE void mul_backward_7(const float *a, const float *b, const float *gy, float *ga, float *gb,
                            count n);

void mul_forward(const float *a, const float *b, float *y, count n)
{
    for (count i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

void mul_backward(const float *a, const float *b, const float *gy, float *ga, float *gb, count n)
{
    for (count i = 0; i < n; i++) {
        ga[i] += gy[i] * b[i];
        gb[i] += gy[i] * a[i];
    }
}

void mul_backward_5(const float *a, const float *b, const float *gy, float *ga, float *gb, count n)
{
    (void)a;
    (void)gb;
    for (count i = 0; i < n; i++)
        ga[i] += gy[i] * b[i];
}

void mul_backward_6(const float *a, const float *b, const float *gy, float *ga, float *gb, count n)
{
    (void)b;
    (void)ga;
    for (count i = 0; i < n; i++)
        gb[i] += gy[i] * a[i];
}

void mul_backward_7(const float *a, const float *b, const float *gy, float *ga, float *gb, count n)
{
    mul_backward(a, b, gy, ga, gb, n);
}
