/*
 * compiler_fixture.h - what tests on the compiler plugin begin with: contexts whose only backend it
 * is, kernels of source text, vectors, directories that go away. Every call checks itself.
 */
#ifndef DDISP_TESTS_COMPILER_FIXTURE_H
#define DDISP_TESTS_COMPILER_FIXTURE_H

#include "../../unit/check.h"
#include "compiler.h"

#include <stdbool.h>

/** y = a b, with its gradients. */
#define SOURCE_MUL                                                                                 \
    "entry forward: $0 $1 * >2\n"                                                                  \
    "entry backward: @2 $1 * >>0 @2 $0 * >>1\n"

/** A context on the compiler plugin, its device, and what it logged. */
struct setting {
    ddisp_context *context;
    ddisp_device *device;
    char directory[256]; /* of the kernel cache */
    uint32_t warnings;
    char warning[1024]; /* the last one */
    /* host memory of the context: blocks now held, calls, and which call fails (0: none) */
    uint32_t blocks, calls, fail_at;
};

/** A kernel to be made: all zero but source is y = f(x...) of `param_count` f32 vectors, the last
 * of them an output. */
struct recipe {
    const char *name;   /* NULL: "k" */
    const char *source; /* NULL: SOURCE_MUL */
    const char *options;
    const ddisp_header *headers;
    uint32_t header_count;
    const ddisp_param *params; /* NULL: a and b in, y out, differentiable, rank any */
    uint32_t param_count;
    const ddisp_code_param *code_params;
    uint32_t code_param_count;
    uint64_t flags; /* DDISP_CODE_... */
    uint32_t variant_budget;
    bool forward_only;
};

/** The plugin's control; counters start at 0 and settings at their first values. Loads the plugin
 * when nothing has. */
struct compiler_control *control(void);
void control_reset(void);

/** A new directory below the system's for temporary files. */
void directory_make(char path[256]);
/** Removes it with all that is in it. */
void directory_remove(const char *path);
/** Names in it, sorted, one a line; returns how many. */
uint32_t directory_list(const char *path, char *text, size_t capacity);

/** Opens a setting. directory NULL: a new one, removed by close. */
struct setting *setting_open(const char *directory);
void setting_close(struct setting *s, bool remove_directory);

ddisp_status kernel_try(struct setting *s, const struct recipe *recipe, ddisp_kernel **out_kernel);
ddisp_kernel *kernel_make(struct setting *s, const struct recipe *recipe);
ddisp_kernel_statistics kernel_statistics(ddisp_kernel *kernel);

ddisp_tensor *vector(struct setting *s, uint64_t flags, const float *values, int64_t count);
#define VECTOR(s, flags, ...)                                                                      \
    vector((s), (flags), (const float[]){__VA_ARGS__},                                             \
           (int64_t)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float)))
/** Dense or strided tensor over new memory; strides NULL: dense. */
ddisp_tensor *tensor(struct setting *s, ddisp_dtype dtype, uint32_t rank, const int64_t *shape,
                     const int64_t *strides, uint64_t flags);
void expect(ddisp_tensor *tensor, const float *values, int64_t count);
#define EXPECT(tensor, ...)                                                                        \
    expect((tensor), (const float[]){__VA_ARGS__},                                                 \
           (int64_t)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float)))

#endif
