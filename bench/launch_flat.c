/*
 * launch_flat.c - whether a launch costs the same however much is alive: 10 to 100 000 tensors,
 * kernels, variants and signatures, where each takes the driver a pipeline or a module up to 1000.
 */
#include "launch_flat.h"
#include "launch_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The two kinds on one thread. */
static void print_flat(const char *what, uint32_t count, subject *s)
{
    double series[2][BLOCKS];
    (void)block_of(s, DYNAMIC);
    (void)block_of(s, PREPARED);
    for (int block = 0; block < blocks; block++)
        for (int k = 0; k < 2; k++)
            series[k][block] = block_of(s, k ? PREPARED : DYNAMIC);
    double d = quantile(series[0], blocks, 0.5), p = quantile(series[1], blocks, 0.5);
    if (!json) {
        printf("with %6u live %-10s dynamic %6.0f ns, prepared %6.0f ns", count, what, d, p);
        end_row();
        return;
    }
    begin_row("live");
    printf(", \"what\": \"%s\", \"count\": %u, \"dynamic_ns\": %.1f, \"prepared_ns\": %.1f", what,
           count, d, p);
    print_series("raw_dynamic", series[0]);
    print_series("raw_prepared", series[1]);
    end_row();
}

/** Part of the time by which the present kind has to be done. */
static double until;

/** Whether there is no time to make more of them, which is said. */
static bool stops(const char *what, uint32_t count)
{
    if (!is_late(until))
        return false;
    print_left_out(what, count);
    return true;
}

static void run_flat_tensors(subject *s, uint32_t most)
{
    ddisp_tensor **live = malloc(most * sizeof *live);
    uint32_t made = 0;
    for (uint32_t count = 10; count <= most; count *= 100) {
        while (made < count && !(made % 64 == 0 && stops("tensors", count)))
            live[made++] = make_tensor(0);
        if (made < count)
            break;
        CHECK(ddisp_device_synchronize(device, DDISP_TIMEOUT_INFINITE));
        print_flat("tensors", count, s);
    }
    while (made)
        ddisp_tensor_release(live[--made]);
    free(live);
}

/* Kernels that are only there, or each launched once, so that it has a variant. */
static void run_flat_kernels(subject *s, uint32_t most, bool launched)
{
    const char *what = launched ? "variants" : "kernels";
    ddisp_kernel **live = malloc(most * sizeof *live);
    uint32_t made = 0;
    for (uint32_t count = 10; count <= most; count *= 10) {
        for (; made < count && !(made % 64 == 0 && stops(what, count)); made++) {
            live[made] = make_kernel(s->tensors, DDISP_DTYPE_F32, made + 1);
            if (launched)
                CHECK(
                    ddisp_launch(live[made], s->mode, s->args, s->tensors, &s->options, s->stream));
        }
        if (made < count)
            break;
        if (count == 10 || count * 10 > most || count == 1000)
            print_flat(what, count, s);
    }
    while (made)
        ddisp_kernel_release(live[--made]);
    free(live);
}

/* Signatures of one kernel, which differ in the dtypes of its arguments. */
static void run_flat_signatures(uint32_t most)
{
    static const ddisp_dtype dtypes[4] = {DDISP_DTYPE_F32, DDISP_DTYPE_F64, DDISP_DTYPE_I32,
                                          DDISP_DTYPE_I64};
    enum { TENSORS = 9 };
    ddisp_kernel *kernel = make_kernel(TENSORS, DDISP_DTYPE_ANY, 0);
    static const int64_t shape[2] = {64, 32}; /* of the memory, of what is seen of it */
    ddisp_tensor *memory[TENSORS];
    ddisp_tensor_view views[TENSORS];
    ddisp_arg args[TENSORS];
    static subject s;
    memset(args, 0, sizeof args);
    prepare(&s, kernel, DDISP_MODE_FORWARD, TENSORS, false);
    for (int i = 0; i < TENSORS; i++) {
        ddisp_tensor_info info = DDISP_ZERO;
        info.size = (uint32_t)sizeof info;
        CHECK(ddisp_tensor_create(device, DDISP_DTYPE_F64, 1, shape, 0, &memory[i]));
        CHECK(ddisp_tensor_get_info(memory[i], &info));
        views[i] = (ddisp_tensor_view){.size = (uint32_t)sizeof views[i],
                                       .address = info.address,
                                       .rank = 1,
                                       .shape = &shape[1]};
        args[i].view = &views[i];
    }
    uint32_t made = 0;
    for (uint32_t count = 10; count <= most; count *= 100) {
        for (; made < count && !(made % 64 == 0 && stops("signatures", count)); made++) {
            for (int i = 0; i < TENSORS; i++)
                views[i].dtype = dtypes[made >> (2 * i) & 3];
            CHECK(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, TENSORS, &s.options, s.stream));
        }
        CHECK(ddisp_stream_synchronize(s.stream, DDISP_TIMEOUT_INFINITE));
        if (made < count)
            break;
        print_flat("signatures", count, &s);
    }
    finish(&s);
    for (int i = 0; i < TENSORS; i++)
        ddisp_tensor_release(memory[i]);
    ddisp_kernel_release(kernel);
}

void run_flat(const ddisp_device_info *info, bool quick)
{
    static subject s;
    bool host = in_caller = strcmp(info->backend, "host") == 0;
    bool vulkan = strcmp(info->backend, "vulkan") == 0;
    uint32_t most = quick ? 1000 : 100000;
    ddisp_kernel *kernel = make_kernel(3, DDISP_DTYPE_F32, 0);
    prepare(&s, kernel, DDISP_MODE_FORWARD, 3, false);
    until = 0.55;
    run_flat_tensors(&s, most);
    until = 0.65;
    run_flat_kernels(&s, most, false);
    /* A variant takes the driver a while, and on Vulkan each signature has its own. */
    until = 0.75;
    run_flat_kernels(&s, host ? most : quick ? 100 : 1000, true);
    finish(&s);
    ddisp_kernel_release(kernel);
    until = 0.85;
    run_flat_signatures(vulkan && most > 1000 ? 1000 : most);
}
