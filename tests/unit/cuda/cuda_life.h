/*
 * cuda_life.h - everything that the CUDA backend's table offers, once: it goes as far as it can and
 * then cleans up. For tests that make its calls fail.
 */
#ifndef CUDA_LIFE_H
#define CUDA_LIFE_H

#include "cuda_fixture.h"

typedef struct life {
    cu__context context; /* current on entry, and after every call */
    ddisp_status status; /* first failure */
    char message[2048];
    int disturbed;  /* a call left another context current */
    int wrong;      /* a call succeeded with wrong results */
    int after_loss; /* driver calls of table calls that began after the loss */
    int lost;
    uint64_t known; /* driver calls so far */
} life;

/** Opens instance and device, uses all, closes them. Sets the fixture's device and stream. */
void live(life *self);

#endif
