/*
 * test_cost.cpp - the C++ layer costs nothing over C: the same step, written in C and in C++, makes
 * the same calls of the library with the same bytes, and C++ allocates nothing for it.
 *
 * The linker puts the functions below (--wrap) before those of the library; they note what they are
 * called with and go on. Time is not looked at.
 */
#include "cost.h"
#include "tap.hpp"

extern "C" {
#include "mul_kernel.h"
}

#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

namespace
{
struct call {
    std::string function;
    std::string bytes;
    bool operator==(const call &other) const
    {
        return function == other.function && bytes == other.bytes;
    }
};
std::vector<call> trace;
bool tracing, counting;
int news;

template <typename... Parts> void note(const char *function, const Parts &...parts)
{
    if (!tracing)
        return;
    const bool counted = std::exchange(counting, false);
    std::string bytes;
    (bytes.append(reinterpret_cast<const char *>(&parts), sizeof parts), ...);
    trace.push_back({function, bytes});
    counting = counted;
}
/* What pointers lead to. */
void note_more(const void *data, std::size_t size)
{
    if (!tracing)
        return;
    const bool counted = std::exchange(counting, false);
    trace.back().bytes.append(static_cast<const char *>(data), data ? size : 0);
    counting = counted;
}

uint64_t allocations;
void *allocate(void *, uint64_t size_bytes)
{
    allocations++;
    return std::malloc(static_cast<std::size_t>(size_bytes));
}
void deallocate(void *, void *pointer)
{
    std::free(pointer);
}

/* The step in C++, on handles and with the builder, as a user would write it. */
ddisp_status cost_cxx(const dd::kernel &kernel, const dd::tensor &a, const dd::tensor &b,
                      const dd::tensor &y, const dd::tensor &upstream, const dd::report &report,
                      const dd::plan &plan, const dd::stream &stream, float (&values)[4])
{
    DO(kernel.forward(a, b, y));
    DO(y.set_grad(upstream));
    DO(kernel.backward(a, b, y));
    DO(y.set_grad(upstream));
    DO(dd::launch(kernel, DDISP_MODE_BACKWARD)
           .policy(DDISP_POLICY_SCRATCH)
           .flags(DDISP_LAUNCH_ZERO_UPSTREAM)
           .report_to(report)
           .on(stream)
           .run(a, b, y));
    DO(plan.launch_on(stream, a, b, y));
    {
        const dd::tensor gradient = GET(a.grad());
        DO(gradient.read(values, 4, stream));
    }
    DO(a.clear_grad());
    return DDISP_STATUS_OK;
}
} // namespace

void *operator new(std::size_t size)
{
    news += counting;
    void *const memory = std::malloc(size ? size : 1);
    if (!memory)
        std::abort();
    return memory;
}
void operator delete(void *memory) noexcept
{
    std::free(memory);
}
void operator delete(void *memory, std::size_t) noexcept
{
    std::free(memory);
}

#define WRAPPED(returns, name, parameters)                                                         \
    returns __real_##name parameters;                                                              \
    returns __wrap_##name parameters;                                                              \
    returns __wrap_##name parameters
extern "C" {
WRAPPED(ddisp_status, ddisp_launch,
        (ddisp_kernel * kernel, ddisp_mode mode, const ddisp_arg *args, uint32_t count,
         const ddisp_launch_options *options, ddisp_stream *stream))
{
    note("launch", kernel, mode, count, stream);
    note_more(args, count * sizeof *args);
    note_more(options, sizeof *options);
    return __real_ddisp_launch(kernel, mode, args, count, options, stream);
}
WRAPPED(ddisp_status, ddisp_plan_launch,
        (ddisp_plan * plan, const ddisp_arg *args, uint32_t count, ddisp_stream *stream))
{
    note("plan_launch", plan, count, stream);
    note_more(args, count * sizeof *args);
    return __real_ddisp_plan_launch(plan, args, count, stream);
}
WRAPPED(ddisp_status, ddisp_tensor_set_grad, (ddisp_tensor * tensor, ddisp_tensor *grad))
{
    note("set_grad", tensor, grad);
    return __real_ddisp_tensor_set_grad(tensor, grad);
}
WRAPPED(ddisp_status, ddisp_tensor_clear_grad, (ddisp_tensor * tensor))
{
    note("clear_grad", tensor);
    return __real_ddisp_tensor_clear_grad(tensor);
}
WRAPPED(ddisp_status, ddisp_tensor_grad, (ddisp_tensor * tensor, ddisp_tensor **out_grad))
{
    note("grad", tensor);
    return __real_ddisp_tensor_grad(tensor, out_grad);
}
WRAPPED(ddisp_status, ddisp_tensor_read,
        (ddisp_tensor * tensor, void *data, uint64_t size_bytes, ddisp_stream *stream))
{
    note("read", data, size_bytes, stream); /* the gradient is a new tensor each time */
    return __real_ddisp_tensor_read(tensor, data, size_bytes, stream);
}
WRAPPED(void, ddisp_tensor_retain, (ddisp_tensor * tensor))
{
    note("retain", tensor);
    __real_ddisp_tensor_retain(tensor);
}
WRAPPED(void, ddisp_tensor_release, (ddisp_tensor * tensor))
{
    note("release");
    __real_ddisp_tensor_release(tensor);
}
WRAPPED(ddisp_status, ddisp_last_error_detail, (ddisp_error * error))
{
    note("last_error_detail");
    return __real_ddisp_last_error_detail(error);
}
}

int main()
{
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    ddisp_allocator allocator = DDISP_ZERO;
    allocator.size = static_cast<uint32_t>(sizeof allocator);
    allocator.allocate = allocate;
    allocator.release = deallocate;
    ddisp_context_desc desc = DDISP_ZERO;
    desc.size = static_cast<uint32_t>(sizeof desc);
    desc.allocator = &allocator;
    desc.backends = "host";
    const dd::context context = GET(dd::context::create(desc));
    const dd::device device = GET(context.open("host"));
    const dd::kernel kernel = GET(dd::kernel::create(context, *mul_kernel_desc()));
    const auto make = [&](float value, uint64_t flags) {
        dd::tensor tensor = GET(dd::tensor::create(device, DDISP_DTYPE_F32, {4}, flags));
        DO(tensor.fill(value));
        return tensor;
    };
    const dd::tensor a = make(2, DDISP_TENSOR_REQUIRES_GRAD), b = make(3, 0);
    const dd::tensor y = make(0, DDISP_TENSOR_REQUIRES_GRAD), upstream = make(1, 0);
    const dd::report report = GET(dd::report::create(context));
    const dd::stream stream = GET(dd::stream::create(device));
    const dd::plan plan = GET(dd::launch(kernel, DDISP_MODE_FORWARD).prepare(a, b, y));

    struct cost on = {kernel.get(), a.get(),    b.get(),      y.get(), upstream.get(),
                      report.get(), plan.get(), stream.get(), {}};
    std::vector<call> traces[2];
    uint64_t taken[2] = {0, 0};
    /* The first round builds variants and fills pools; the second is looked at. */
    for (int round = 0; round < 2; round++)
        for (int cxx = 0; cxx < 2; cxx++) {
            DO(device.synchronize());
            trace.clear();
            news = 0;
            const uint64_t before = allocations;
            tracing = counting = true;
            float values[4];
            const ddisp_status status =
                cxx ? cost_cxx(kernel, a, b, y, upstream, report, plan, stream, on.values)
                    : cost_c(&on);
            tracing = counting = false;
            taken[cxx] = allocations - before;
            traces[cxx] = trace;
            std::memcpy(values, on.values, sizeof values);
            tap::run((cxx ? "cxx" : "c") + std::string("_step_is_right_in_round_") +
                         std::to_string(round),
                     [&] {
                         CHECK(status == DDISP_STATUS_OK);
                         CHECK(values[0] == 6 && values[3] == 6); /* two backward launches of 3 */
                     });
            tap::run((cxx ? "cxx" : "c") + std::string("_step_allocates_nothing_in_round_") +
                         std::to_string(round),
                     [&] { CHECK(news == 0); });
        }
    tap::run("the_calls_are_those_of_c", [&] {
        CHECK(traces[0].size() == 10);
        CHECK(traces[0] == traces[1]);
        for (std::size_t i = 0; i < traces[0].size() && i < traces[1].size(); i++)
            std::printf("# %s %zu bytes, %s %zu bytes\n", traces[0][i].function.c_str(),
                        traces[0][i].bytes.size(), traces[1][i].function.c_str(),
                        traces[1][i].bytes.size());
    });
    tap::run("the_library_allocates_as_often", [&] { CHECK(taken[0] == taken[1]); });
    tap::run("a_call_that_is_another_is_noticed", [&] {
        trace.clear();
        tracing = true;
        DO(dd::launch(kernel, DDISP_MODE_FORWARD).run(a, b, y)); /* options, though all default */
        const std::vector<call> other = trace;
        trace.clear();
        DO(kernel.forward(a, b, y));
        tracing = false;
        CHECK(other.size() == 1 && trace.size() == 1 && !(other == trace));
    });
    return tap::finish();
}
