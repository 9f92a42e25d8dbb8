/*
 * emulate_cuda.h - the backend's own kernels, run by the processor: a launcher for the stand-in
 * driver (fake_cuda_set_launcher).
 */
#ifndef FAKE_EMULATE_CUDA_H
#define FAKE_EMULATE_CUDA_H

#ifdef __cplusplus
extern "C" {
#endif

/** Runs the kernel of that name; aborts when there is none. */
void emulate_launch(const char *name, void **parameters, const unsigned int grid[3],
                    const unsigned int group[3], unsigned int shared_bytes);

#ifdef __cplusplus
}
#endif

#endif
