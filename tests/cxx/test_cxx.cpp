/*
 * test_cxx.cpp - the C++ layer: the mixed-gradient job on every device, and each kind of object.
 * Built twice, with exceptions and with results. Numbers are worked out by hand.
 */
#include "tap.hpp"

extern "C" {
#include "mul_kernel.h"
}
#include <diffdispatch/device/ddisp_block.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

namespace
{
using floats = std::vector<float>;

/* Reads a tensor's floats. */
floats read(const dd::tensor &tensor, std::size_t count)
{
    floats values(count);
    DO(tensor.read(values));
    return values;
}

dd::tensor made(const dd::device &device, const floats &values, uint64_t flags = 0)
{
    dd::tensor tensor = GET(
        dd::tensor::create(device, DDISP_DTYPE_F32, {static_cast<int64_t>(values.size())}, flags));
    DO(tensor.write(values));
    return tensor;
}

/* y = s * x, on the host: a kernel written here, as a function without captures. */
void scale_forward(const struct ddisp_block *block, uint64_t begin, uint64_t end)
{
    const auto *x =
        reinterpret_cast<const float *>(static_cast<uintptr_t>(DDISP_BLOCK_TENSOR(block, 0)->data));
    auto *y = reinterpret_cast<float *>(static_cast<uintptr_t>(DDISP_BLOCK_TENSOR(block, 1)->data));
    float s;
    std::memcpy(&s, DDISP_BLOCK_SCALAR(block, 0), sizeof s);
    for (uint64_t i = begin; i < end; i++)
        y[i] = s * x[i];
}

dd::kernel scale_kernel(const dd::context &context)
{
    const ddisp_param params[] = {
        DDISP_PARAM("x", DDISP_ACCESS_IN, DDISP_DTYPE_F32, 1, 0),
        DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, 1, 0),
        DDISP_PARAM_SCALAR("s", DDISP_DTYPE_F32),
    };
    const ddisp_entry entries[] = {
        DDISP_ENTRY_FUNCTION(DDISP_MODE_FORWARD, scale_forward, 0x73636c01)};
    const std::array<ddisp_code, 1> codes = {
        {DDISP_CODE("host", "host-function", nullptr, 0, entries, 0)}};
    return GET(dd::kernel::create(context, "scale", params, codes));
}

/* The four mixtures of frozen inputs and inputs that require a gradient, n elements. */
void mixtures(const dd::device &device, const dd::kernel &mul, int64_t n)
{
    const auto count = static_cast<std::size_t>(n);
    floats a_values(count), b_values(count), upstream(count);
    for (std::size_t i = 0; i < count; i++) {
        a_values[i] = static_cast<float>(i % 97) - 48;
        b_values[i] = static_cast<float>(i % 31) * 0.5f;
        upstream[i] = static_cast<float>(i % 7) - 3;
    }
    const dd::tensor gy = made(device, upstream);
    for (int mixture = 0; mixture < 4; mixture++) {
        const bool grads[2] = {(mixture & 1) != 0, (mixture & 2) != 0};
        const dd::tensor a = made(device, a_values, grads[0] ? DDISP_TENSOR_REQUIRES_GRAD : 0);
        const dd::tensor b = made(device, b_values, grads[1] ? DDISP_TENSOR_REQUIRES_GRAD : 0);
        const dd::tensor y =
            GET(dd::tensor::create(device, DDISP_DTYPE_F32, {n}, DDISP_TENSOR_REQUIRES_GRAD));
        DO(mul.forward(a, b, y));
        DO(y.set_grad(gy));
        DO(mul.backward(a, b, y));

        const floats got = read(y, count);
        for (std::size_t i = 0; i < count; i++)
            if (double(got[i]) != double(a_values[i]) * double(b_values[i]))
                return FAIL("y is the product");
        for (int which = 0; which < 2; which++) {
            const dd::tensor &input = which ? b : a;
            if (!grads[which]) {
                CHECK(STATUS_OF(input.grad()) == DDISP_STATUS_NO_GRADIENT);
                continue;
            }
            const floats gradient = read(GET(input.grad()), count);
            for (std::size_t i = 0; i < count; i++)
                if (double(gradient[i]) !=
                    double(upstream[i]) * double((which ? a_values : b_values)[i]))
                    return FAIL("the gradient is upstream times the other input");
        }
    }
}

void policies(const dd::context &context, const dd::device &device, const dd::kernel &mul)
{
    const dd::tensor a = made(device, {1, 2, 3}, DDISP_TENSOR_REQUIRES_GRAD);
    const dd::tensor b = made(device, {4, 5, 6});
    const dd::tensor y = made(device, {0, 0, 0}, DDISP_TENSOR_REQUIRES_GRAD);
    const dd::tensor gy = made(device, {1, 10, 100});
    const dd::report report = GET(dd::report::create(context));
    const dd::stream stream = GET(dd::stream::create(device));
    DO(device.synchronize()); /* the writes ran in the device's own stream */
    const struct {
        ddisp_policy policy;
        ddisp_backing backing;
    } rows[] = {{DDISP_POLICY_SPECIALIZE, DDISP_BACKING_OMITTED},
                {DDISP_POLICY_GUARD, DDISP_BACKING_NULL},
                {DDISP_POLICY_SCRATCH, DDISP_BACKING_SCRATCH}};
    for (const auto &row : rows) {
        DO(y.set_grad(gy));
        DO(a.clear_grad());
        DO(dd::launch(mul, DDISP_MODE_BACKWARD)
               .policy(row.policy)
               .on(stream)
               .report_to(report)
               .run(a, b, y));
        DO(stream.synchronize());
        CHECK(read(GET(a.grad()), 3) == floats({4, 50, 600}));
        bool found = false;
        for (uint32_t i = 0; i < GET(report.info()).slot_count; i++) {
            const ddisp_report_slot slot = GET(report.slot(i));
            if (slot.param == MUL_B && slot.is_add) {
                CHECK(slot.backing == row.backing);
                found = true;
            }
        }
        CHECK(found);
    }
    CHECK(GET(report.format()).find("scratch") != std::string::npos);
    CHECK(GET(report.label()).compare(0, 12, "mul backward") == 0);
    const std::vector<uint8_t> bytes = GET(report.signature());
    CHECK(GET(dd::decode_signature(bytes.data(), bytes.size())).param_count == 3);
    CHECK(GET(dd::decode_signature_param(bytes.data(), bytes.size(), 1)).flags ==
          DDISP_SIGNATURE_HAS_ADD);
    CHECK(GET(dd::format_signature(bytes.data(), bytes.size())).find("f32") != std::string::npos);

    /* This kernel adds as it comes; and bounds arrive, for one names no parameter. */
    const std::array<ddisp_bound, 1> every = {{{DDISP_BOUND_EVERY_PARAM, 0, 8, 0}}};
    const ddisp_bound nobody[] = {{99, 0, 8, 0}};
    dd::launch deterministic(mul, DDISP_MODE_BACKWARD);
    deterministic.flags(DDISP_LAUNCH_DETERMINISTIC);
    DO(y.set_grad(gy));
    CHECK(deterministic.bounds(every).try_run(a, b, y) == DDISP_STATUS_UNSUPPORTED);
    CHECK(deterministic.bounds(nobody).try_run(a, b, y) == DDISP_STATUS_INVALID_ARGUMENT);

    /* One argument's own policy, and the options of the builder. */
    ddisp_error error = DDISP_ZERO;
    error.size = static_cast<uint32_t>(sizeof error);
    dd::launch rejecting(mul, DDISP_MODE_BACKWARD);
    rejecting.error_to(error).flags(DDISP_LAUNCH_KEEP_UPSTREAM);
    DO(y.set_grad(gy));
    CHECK(rejecting.try_run(a, dd::arg(b).policy(DDISP_POLICY_REJECT), y) ==
          DDISP_STATUS_GRADIENT_REJECTED);
    CHECK(error.argument == 1 && std::strstr(error.message, "'b'"));
    CHECK(rejecting.try_run(a, b, y) == DDISP_STATUS_OK);
    CHECK(rejecting.try_run(a, b, y) == DDISP_STATUS_OK); /* the upstream was kept */
    CHECK(read(GET(a.grad()), 3) == floats({12, 150, 1800}));
}

void plans_and_graphs(const dd::device &device, const dd::kernel &mul)
{
    const dd::tensor a = made(device, {1, 2}), b = made(device, {3, 4}), c = made(device, {5, 6});
    const dd::tensor y = made(device, {0, 0});
    const dd::plan plan = GET(dd::launch(mul, DDISP_MODE_FORWARD).prepare(a, b, y));
    DO(plan.launch(a, c, y));
    CHECK(read(y, 2) == floats({5, 12}));

    const dd::stream stream = GET(dd::stream::create(device));
    DO(device.synchronize());
    DO(stream.begin_capture());
    DO(dd::launch(mul, DDISP_MODE_FORWARD).on(stream).run(a, b, y));
    const dd::graph graph = GET(stream.end_capture());
    CHECK(graph.launch_count() == 1);
    DO(graph.launch(stream));
    DO(stream.synchronize());
    CHECK(read(y, 2) == floats({3, 8}));
    DO(graph.update(0, MUL_A, c));
    DO(graph.launch());
    CHECK(read(y, 2) == floats({15, 24}));
    CHECK(GET(dd::launch(mul, DDISP_MODE_FORWARD).signature(a, b, y)).byte_count > 0);
}

void memory_and_order(const dd::device &device)
{
    const dd::buffer memory = GET(dd::buffer::create(device, 24));
    const float values[6] = {1, 2, 3, 4, 5, 6};
    DO(memory.write(0, values, sizeof values));
    CHECK(memory.size() == 24);
    const dd::tensor matrix = GET(dd::tensor::over(memory, DDISP_DTYPE_F32, {2, 3}));
    const dd::tensor turned = GET(matrix.as_strided({3, 2}, {1, 3}));
    CHECK(read(turned, 6) == floats({1, 4, 2, 5, 3, 6}));
    const dd::tensor column =
        GET(dd::tensor::over(memory, DDISP_DTYPE_F32, {2}, {3}, 1, DDISP_TENSOR_READ_ONLY));
    CHECK(read(column, 2) == floats({2, 5}));
    CHECK(STATUS_OF(column.fill(0)) == DDISP_STATUS_READ_ONLY);

    const dd::stream first = GET(dd::stream::create(device));
    const dd::stream second = GET(dd::stream::create(device));
    const dd::event mark = GET(dd::event::create(device));
    const dd::tensor sum = made(device, {0, 0, 0});
    DO(device.synchronize());
    DO(sum.fill(1, first));
    DO(mark.record(first));
    DO(second.wait(mark));
    DO(sum.accumulate(matrix, 2, second));
    DO(second.flush());
    DO(second.synchronize());
    DO(mark.synchronize());
    CHECK(GET(mark.done()));
    CHECK(read(sum, 3) == floats({11, 15, 19}));

    const dd::tensor index = GET(dd::tensor::create(device, dd::dtype_of<int32_t>(), {2}));
    DO(index.write(std::array<int32_t, 2>{{2, 2}}));
    DO(sum.scatter_add(0, index, column));
    CHECK(read(sum, 3) == floats({11, 15, 26}));
    const dd::tensor copy = made(device, {0, 0, 0});
    DO(copy.copy_from(sum));
    CHECK(read(copy, 3) == floats({11, 15, 26}));
    DO(device.synchronize());
    CHECK(device.status() == DDISP_STATUS_OK);

    const dd::event begin = GET(dd::event::create(device, DDISP_EVENT_TIMED));
    const dd::event end = GET(dd::event::create(device, DDISP_EVENT_TIMED));
    std::atomic<int> told{0};
    DO(begin.record(first));
    DO(sum.fill(3, first));
    DO(end.record(first));
    DO(end.notify(
        [](void *user, ddisp_status status) {
            *static_cast<std::atomic<int> *>(user) = status == DDISP_STATUS_OK ? 1 : 2;
        },
        &told));
    DO(first.synchronize());
    (void)GET(end.elapsed_since(begin));
    CHECK(STATUS_OF(begin.elapsed_since(mark)) == DDISP_STATUS_INVALID_ARGUMENT); /* not timed */
    while (told == 0)
        std::this_thread::yield();
    CHECK(told == 1);

    DO(device.set_memory_limit(1 << 20));
    CHECK(STATUS_OF(dd::buffer::create(device, 64 << 20)) == DDISP_STATUS_OUT_OF_DEVICE_MEMORY);
    DO(device.set_memory_limit(0));
    DO(dd::buffer::create(device, 2 << 20));
    CHECK(GET(device.statistics()).bytes_live > 0);
    DO(device.trim());
}

/* Launches on the caller's own memory, with the caller's own gradients. */
void views(const dd::context &context, const dd::device &host, const dd::kernel &mul)
{
    float a[3] = {1, 2, 3}, b[3] = {4, 5, 6}, y[3] = {0, 0, 0}, gy[3] = {1, 1, 2},
          ga[3] = {1, 1, 1};
    const int64_t shape[] = {3}, backwards[] = {-1};
    const auto at = [](const float *p) {
        return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(p));
    };
    const auto va = dd::view(DDISP_DTYPE_F32, at(a), shape, DDISP_VIEW_REQUIRES_GRAD);
    const auto vb = dd::view(DDISP_DTYPE_F32, at(b + 2), shape, backwards);
    const auto vy = dd::view(DDISP_DTYPE_F32, at(y), shape, DDISP_VIEW_REQUIRES_GRAD);
    DO(dd::launch(mul, DDISP_MODE_FORWARD).on(host).run(va, vb, vy));
    DO(host.synchronize());
    CHECK(y[0] == 6 && y[1] == 10 && y[2] == 12);
    DO(dd::launch(mul, DDISP_MODE_BACKWARD)
           .on(host)
           .run(dd::arg(va).grad_add(at(ga)), vb, dd::arg(vy).grad_read(at(gy))));
    DO(host.synchronize());
    CHECK(ga[0] == 7 && ga[1] == 6 && ga[2] == 9);

    const dd::kernel scale = scale_kernel(context);
    DO(dd::launch(scale, DDISP_MODE_FORWARD).on(host).items(2).run(va, vy, 0.5f));
    DO(host.synchronize());
    CHECK(y[0] == 0.5f && y[1] == 1 && y[2] == 12); /* two items were asked for */
    CHECK(STATUS_OF(dd::launch(scale, DDISP_MODE_FORWARD).on(host).run(va, vy, 0.5)) ==
          DDISP_STATUS_INVALID_ARGUMENT); /* a double for a float */
    CHECK(GET(scale.statistics()).signatures >= 1);

    int released = 0;
    const auto count = [](void *user) { ++*static_cast<int *>(user); };
    dd::buffer wrapped = GET(dd::buffer::wrap(host, at(a), sizeof a, +count, &released));
    CHECK(wrapped.address() == at(a));
    wrapped.reset();
    CHECK(released == 1);
}

void dlpack(const dd::device &host)
{
    const dd::tensor source = made(host, {1, 2, 3});
    struct DLManagedTensorVersioned *const managed = GET(source.to_dlpack());
    dd::tensor back = GET(dd::tensor::from_dlpack(host, managed, DDISP_TENSOR_REQUIRES_GRAD));
    CHECK(GET(back.info()).address == GET(source.info()).address);
    CHECK(GET(back.info()).grad_state == DDISP_GRAD_STATE_EMPTY);
    back.reset();
    back = GET(dd::tensor::from_dlpack(host, GET(source.to_old_dlpack())));
    CHECK(read(back, 3) == floats({1, 2, 3}));
}

void handles(const dd::device &host)
{
    static_assert(sizeof(dd::tensor) == sizeof(void *) && sizeof(dd::device) == sizeof(void *));
    static_assert(std::is_nothrow_move_constructible_v<dd::tensor> &&
                  std::is_nothrow_move_assignable_v<dd::tensor>);
    static_assert(!std::is_copy_constructible_v<dd::tensor>);
    const uint64_t before = GET(host.statistics()).bytes_live;
    {
        dd::tensor one = made(host, {1, 2, 3, 4});
        dd::tensor two = std::move(one);
        CHECK(!one && two);
        dd::tensor three = two.share();
        CHECK(three.get() == two.get());
        two.reset();
        CHECK(read(three, 4) == floats({1, 2, 3, 4})); /* the other reference holds it */
        dd::tensor &same = three;
        three = std::move(same);
        CHECK(three.get());
        dd::tensor four = dd::tensor::adopt(three.release());
        CHECK(!three && four);
        three = four.share();
        three = made(host, {5}); /* what it held is given back */
        const dd::tensor flat = GET(four.detach());
        CHECK(GET(flat.info()).numel == 4);
        CHECK(flat.get_device().get() == host.get());
        const std::vector<int64_t> shape = {2, 2};
        const dd::tensor point = GET(dd::tensor::create(host, dd::dtype_of<double>(), {}));
        const dd::tensor square = GET(dd::tensor::create(host, DDISP_DTYPE_F32, shape));
        CHECK(GET(point.info()).rank == 0 && GET(square.info()).rank == 2);
        DO(square.set_requires_grad(true));
        CHECK(GET(square.info()).flags == DDISP_TENSOR_REQUIRES_GRAD);
    }
    CHECK(GET(host.statistics()).bytes_live == before);
}

void failures(const dd::context &context, const dd::device &host, const dd::kernel &mul)
{
    const ddisp_chain native = {sizeof native, 1, nullptr};
    ddisp_chain needs = native;
    CHECK(STATUS_OF(context.wrap("nothing", &native)) == DDISP_STATUS_NOT_FOUND);
    CHECK(STATUS_OF(context.backend_needs("host", &needs)) == DDISP_STATUS_UNSUPPORTED);
    CHECK(STATUS_OF(dd::buffer::wrap_native(host, &native, 4)) == DDISP_STATUS_UNSUPPORTED);
    CHECK(STATUS_OF(context.open("nothing:7")) == DDISP_STATUS_NOT_FOUND);
    CHECK(dd::last_error_message().find("nothing") != std::string::npos);
    const dd::tensor a = made(host, {1, 2}), y = made(host, {0, 0});
    const dd::tensor b = GET(dd::tensor::create(host, DDISP_DTYPE_F64, {2}));
    CHECK(STATUS_OF(mul.forward(a, b, y)) == DDISP_STATUS_DTYPE_MISMATCH);
    CHECK(dd::last_error().status == DDISP_STATUS_DTYPE_MISMATCH);
#ifdef DDISP_NO_EXCEPTIONS
    dd::result<dd::tensor> none = a.grad();
    CHECK(!none && !none.ok() && none.status() == DDISP_STATUS_NO_GRADIENT);
    dd::result<dd::tensor> some = a.detach();
    CHECK(some && some->get() == (*some).get());
#else
    try {
        mul.forward(a, b, y);
        FAIL("the call fails");
    } catch (const dd::error &error) {
        CHECK(std::strstr(error.what(), "DDISP_STATUS_DTYPE_MISMATCH: launch mul: "));
        CHECK(error.argument() == 1 && error.native_code() == 0);
    }
#endif
}
} // namespace

int main()
{
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    const dd::context context = GET(dd::context::create());
    const dd::kernel mul = GET(dd::kernel::create(context, *mul_kernel_desc()));
    dd::device host;
    tap::run("every_backend_is_described", [&] {
        CHECK(GET(context.backend_count()) > 0);
        CHECK(GET(context.backend_info(0)).name[0]);
        CHECK(!GET(context.cache_directory()).empty());
        host = GET(context.open("host"));
    });
    if (!host)
        return tap::finish();
    for (uint32_t i = 0; i < GET(context.device_count()); i++) {
        const ddisp_device_info info = GET(context.device_info(i));
        if (info.flags & DDISP_DEVICE_FLAG_FAKE)
            continue;
        const std::string on = std::string("_on_") + info.spec;
        const dd::device device = GET(context.open(info.spec));
        CHECK(GET(device.info()).rank == info.rank);
        for (const int64_t n : {1, 257, 100003})
            tap::run("mixtures_of_" + std::to_string(n) + on, [&] { mixtures(device, mul, n); });
        tap::run("policies" + on, [&] { policies(context, device, mul); });
        tap::run("plans_and_graphs" + on, [&] { plans_and_graphs(device, mul); });
        tap::run("memory_and_order" + on, [&] { memory_and_order(device); });
    }
    tap::run("views_and_scalars", [&] { views(context, host, mul); });
    tap::run("dlpack", [&] { dlpack(host); });
    tap::run("handles_give_back_what_they_hold", [&] { handles(host); });
    tap::run("failures_say_why", [&] { failures(context, host, mul); });
    return tap::finish();
}
