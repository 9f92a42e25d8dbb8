/*
 * recall.c - what a stream remembers of its dynamic launches. The same kernel with the same tensors
 * comes again in every step of most programs; such a launch needs nothing but the comparison of
 * repeat.c. In come the arguments of a launch; out goes its outcome, or a place where it is
 * remembered from the second time on.
 *
 * A launch has one place, found by a print of kernel, mode and tensors; who shares it with another
 * that comes as often stays outside. Nothing that is remembered keeps anything alive, and a lack of
 * memory for it is no failure.
 */
#include "repeat.h"

#include <string.h>

/* Options that are right, and ask for nothing that is never remembered. */
static bool takes_options(const ddisp_launch_options *options)
{
    return options->size >= offsetof(ddisp_launch_options, bounds) &&
           options->size <= sizeof *options && !options->next && !options->report &&
           !options->reserved && !(options->size == sizeof *options && options->bound_count) &&
           !(options->error && options->error->size != sizeof *options->error) &&
           !(options->flags & (DDISP_LAUNCH_DRY_RUN | DDISP_LAUNCH_DETERMINISTIC));
}

static void keep_options(ddisp__repeat_options *kept, const ddisp_launch_options *options)
{
    kept->flags = options->flags;
    kept->device = options->device;
    kept->policy = options->policy;
    memcpy(kept->items, options->items, sizeof kept->items);
    memcpy(kept->grid, options->grid, sizeof kept->grid);
}

static bool same_options(const ddisp__repeat_options *kept, const ddisp_launch_options *options)
{
    return ((kept->flags ^ options->flags) | (kept->items[0] ^ options->items[0]) |
            (kept->items[1] ^ options->items[1]) | (kept->items[2] ^ options->items[2]) |
            ((uintptr_t)kept->device ^ (uintptr_t)options->device) |
            (kept->grid[0] ^ options->grid[0]) | (kept->grid[1] ^ options->grid[1]) |
            (kept->grid[2] ^ options->grid[2]) | (kept->policy ^ options->policy)) == 0;
}

/* Of kernel, mode and tensors; 0: a view is among them, or nothing tells the stream. */
static uint64_t print_of(const ddisp_kernel *kernel, ddisp_mode mode, const ddisp_arg *args)
{
    const uint64_t odd = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t print = (kernel->serial << 1 | (mode == DDISP_MODE_BACKWARD)) * odd;
    for (uint32_t i = 0; i < kernel->param_count; i++) {
        if (args[i].tensor)
            print += args[i].tensor->id * (odd + 2 * (i + UINT64_C(1)) * odd);
        else if (args[i].view)
            return 0;
    }
    print = (print ^ print >> 32) * odd;
    return print | 1;
}

static ddisp_stream *stream_of(const ddisp_kernel *kernel, const ddisp_arg *args,
                               const ddisp_launch_options *options, ddisp_stream *stream)
{
    if (stream)
        return stream;
    if (options->device)
        return options->device->stream;
    for (uint32_t i = 0; i < kernel->param_count; i++)
        if (args[i].tensor)
            return args[i].tensor->buffer->device->stream;
    return NULL;
}

/* The place is the launch's, or becomes so: a launch that comes a second time takes it from one
 * that did not come in between. */
static bool claim(ddisp_stream *stream, ddisp__repeat_slot *slot, uint64_t print)
{
    if (atomic_load_explicit(&slot->rival, memory_order_relaxed) != print) {
        atomic_store_explicit(&slot->rival, print, memory_order_relaxed);
        return false;
    }
    (void)pthread_mutex_lock(&stream->lock);
    atomic_store_explicit(&slot->print, print, memory_order_relaxed);
    if (slot->repeat)
        slot->repeat->notes = 0;
    (void)pthread_mutex_unlock(&stream->lock);
    return true;
}

bool ddisp__recall_launch(ddisp__recall *recall, ddisp_kernel *kernel, ddisp_mode mode,
                          const ddisp_arg *args, uint32_t arg_count,
                          const ddisp_launch_options *options, ddisp_stream *stream,
                          ddisp_status *out_status)
{
    static const ddisp_launch_options every_default = {.size = sizeof every_default};
    recall->slot = NULL;
    options = options ? options : &every_default;
    if (arg_count != kernel->param_count || !args || kernel->context->trace ||
        kernel->context->deterministic || !takes_options(options))
        return false;
    stream = stream_of(kernel, args, options, stream);
    recall->print = print_of(kernel, mode, args);
    if (!stream || !recall->print)
        return false;
    ddisp__repeat_slot *slot = &stream->slots[recall->print >> 56];
    _Static_assert(DDISP__STREAM_SLOTS == 256, "eight bits tell the slot");
    recall->stream = stream;
    recall->options = options;
    if (atomic_load_explicit(&slot->print, memory_order_relaxed) != recall->print) {
        if (claim(stream, slot, recall->print))
            recall->slot = slot;
        return false;
    }
    recall->slot = slot;
    *out_status = ddisp__device_check(stream->device, "device");
    if (*out_status)
        return false;
    bool launched = false;
    (void)pthread_mutex_lock(&stream->lock);
    ddisp__repeat *repeat = slot->repeat;
    if (repeat && repeat->notes && repeat->kernel == kernel->serial && repeat->mode == mode &&
        same_options(&repeat->options, options) && ddisp__repeat_same(repeat, args))
        launched = ddisp__repeat_submit(repeat, stream, out_status);
    (void)pthread_mutex_unlock(&stream->lock);
    if (!launched)
        return false;
    if (atomic_load_explicit(&slot->rival, memory_order_relaxed))
        atomic_store_explicit(&slot->rival, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&kernel->signature_hits, 1, memory_order_relaxed);
    *out_status = ddisp__repeat_result(stream->device, *out_status);
    return true;
}

ddisp__repeat *ddisp__recall_take(const ddisp__recall *recall, const ddisp__launch *launch)
{
    const ddisp__code *code = &launch->kernel->codes[launch->plan->code];
    const ddisp_entry *entry = &code->desc.entries[launch->plan->entry];
    if (!recall->slot || recall->stream != launch->stream || !ddisp__repeat_possible(launch))
        return NULL;
    (void)pthread_mutex_lock(&launch->stream->lock);
    ddisp__repeat *repeat = recall->slot->repeat;
    recall->slot->repeat = NULL;
    (void)pthread_mutex_unlock(&launch->stream->lock);
    if (repeat && repeat->kernel == launch->kernel->serial &&
        repeat->native_count >= entry->native_count) {
        repeat->notes = 0;
        return repeat;
    }
    ddisp__release(launch->kernel->context, repeat);
    return ddisp__repeat_make(launch->kernel, entry);
}

void ddisp__recall_give(const ddisp__recall *recall, ddisp_context *context, ddisp__repeat *repeat)
{
    keep_options(&repeat->options, recall->options);
    (void)pthread_mutex_lock(&recall->stream->lock);
    ddisp__repeat *other = recall->slot->repeat;
    bool mine = atomic_load_explicit(&recall->slot->print, memory_order_relaxed) == recall->print;
    if (mine && !other)
        recall->slot->repeat = repeat;
    (void)pthread_mutex_unlock(&recall->stream->lock);
    if (!mine || other)
        ddisp__release(context, repeat);
}

void ddisp__recall_forget(ddisp_stream *stream)
{
    for (uint32_t i = 0; i < DDISP__STREAM_SLOTS; i++) {
        ddisp__release(stream->device->context, stream->slots[i].repeat);
        stream->slots[i].repeat = NULL;
    }
}
