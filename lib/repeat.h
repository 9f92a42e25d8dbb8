/*
 * repeat.h - launches that are kept to be handed to the backend again: what a plan holds, and what
 * a stream remembers of dynamic launches.
 */
#ifndef DDISP_LIB_REPEAT_H
#define DDISP_LIB_REPEAT_H

#include "launch.h"

/** Most ranges per parameter of a launch that can be repeated: data and two gradients. */
#define DDISP__REPEAT_ACCESSES 3

/** An argument that was accepted. */
typedef struct ddisp__repeat_arg {
    ddisp_arg arg;
    uint64_t id;         /* of arg.tensor; 0: a scalar */
    ddisp_tensor *owner; /* of its gradient; not counted */
    uint64_t version;    /* of owner, at most as late as what the launch saw */
    uint64_t scalar;
    uint64_t *place; /* of the scalar in the block */
} ddisp__repeat_arg;

/** The options that change what is launched. */
typedef struct ddisp__repeat_options {
    uint64_t flags, items[3];
    ddisp_device *device;
    uint32_t grid[3];
    ddisp_policy policy;
} ddisp__repeat_options;

struct ddisp__repeat {
    uint64_t notes;  /* of the stream that it was launched on; 0: nothing is kept */
    uint64_t kernel; /* serial */
    ddisp_mode mode;
    uint32_t count;
    uint32_t native_count;         /* that there is room for */
    ddisp__repeat_options options; /* recall.c's */
    ddisp_backend_launch request;
    ddisp__places places; /* all in this block of memory */
    ddisp__repeat_arg args[];
};

/* repeat.c */

/** Room for the kernel's launches of an entry, or NULL. */
ddisp__repeat *ddisp__repeat_make(const ddisp_kernel *kernel, const ddisp_entry *entry);
/** A launch whose gradients are prepared leaves everything as it finds it, so that the same
 * arguments need nothing but the same request. */
bool ddisp__repeat_possible(const ddisp__launch *launch);
/** Notes the arguments of a launch that is laid out in the repeat's places; false when a view is
 * among them, which is never the same. */
bool ddisp__repeat_keep(ddisp__repeat *repeat, const ddisp__launch *launch, const ddisp_arg *args);
/** The arguments are those that were kept, or scalars of other values, which are kept from now on;
 * what belongs to gradients is not looked at. */
bool ddisp__repeat_same(ddisp__repeat *repeat, const ddisp_arg *args);
/** Hands the launch to the backend. False, and nothing was done, when it has to be resolved anew.
 * The stream is locked, the arguments are the same. */
bool ddisp__repeat_submit(ddisp__repeat *repeat, ddisp_stream *stream, ddisp_status *out_status);
/** What the caller is told of the backend's status; counts. */
ddisp_status ddisp__repeat_result(ddisp_device *device, ddisp_status status);

/* recall.c: dynamic launches */

/** Where a dynamic launch would be remembered. */
typedef struct ddisp__recall {
    ddisp_stream *stream;
    ddisp__repeat_slot *slot; /* NULL: nowhere */
    uint64_t print;
    const ddisp_launch_options *options; /* the caller's, or every default */
} ddisp__recall;

/** Launches what the stream remembers: true, with the status. False: it goes the long way, with
 * what was found out. */
bool ddisp__recall_launch(ddisp__recall *recall, ddisp_kernel *kernel, ddisp_mode mode,
                          const ddisp_arg *args, uint32_t arg_count,
                          const ddisp_launch_options *options, ddisp_stream *stream,
                          ddisp_status *out_status);
/** Room to lay the launch out in, when it is worth remembering; NULL otherwise. */
ddisp__repeat *ddisp__recall_take(const ddisp__recall *recall, const ddisp__launch *launch);
/** Puts it back, with the launch that was kept in it or with nothing. */
void ddisp__recall_give(const ddisp__recall *recall, ddisp_context *context, ddisp__repeat *repeat);

#endif
