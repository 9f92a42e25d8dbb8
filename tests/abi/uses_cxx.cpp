/*
 * uses_cxx.cpp - every template of the C++ layer is instantiated, with the argument kinds that it
 * is made for. Compiled in every dialect by check-headers, never run.
 */
#include <diffdispatch/diffdispatch.hpp>

#include <array>
#include <vector>

namespace dd = diffdispatch;

#ifdef DDISP_NO_EXCEPTIONS
static_assert(std::is_same_v<decltype(dd::context::create()), dd::result<dd::context>>);
#define GET(call) (call).value()
#define DO(call)  (void)(call).ok()
#else
static_assert(std::is_same_v<decltype(dd::context::create()), dd::context>);
static_assert(std::is_same_v<dd::result<void>, void>);
#define GET(call) (call)
#define DO(call)  call
#endif

static_assert(dd::dtype_of<bool>() == DDISP_DTYPE_BOOL);
static_assert(dd::dtype_of<signed char>() == DDISP_DTYPE_I8);
static_assert(dd::dtype_of<uint16_t>() == DDISP_DTYPE_U16);
static_assert(dd::dtype_of<long>() == DDISP_DTYPE_I64);
static_assert(dd::dtype_of<float>() == DDISP_DTYPE_F32);
static_assert(dd::dtype_of<double>() == DDISP_DTYPE_F64);
static_assert(std::is_nothrow_move_constructible_v<dd::graph>);
static_assert(!std::is_copy_assignable_v<dd::report>);
static_assert(sizeof(dd::plan) == sizeof(void *));
static_assert(sizeof(dd::arg) == sizeof(ddisp_arg));

void use(const dd::device &device, const dd::kernel &kernel, const dd::graph &graph);
void use(const dd::device &device, const dd::kernel &kernel, const dd::graph &graph)
{
    const std::array<int64_t, 2> pair = {{2, 3}};
    const std::vector<int64_t> list = {2, 3};
    const int64_t plain[2] = {2, 3};
    const dd::tensor t = GET(dd::tensor::create(device, dd::dtype_of<float>(), {2, 3}));
    const dd::tensor u = GET(dd::tensor::create(device, DDISP_DTYPE_F32, pair));
    const dd::tensor v = GET(dd::tensor::create(device, DDISP_DTYPE_F32, list));
    const dd::tensor w = GET(dd::tensor::create(device, DDISP_DTYPE_F32, plain));
    const dd::tensor point = GET(dd::tensor::create(device, DDISP_DTYPE_F32, {}));
    std::vector<float> values(6);
    DO(t.write(values));
    DO(t.read(values, nullptr));
    DO(t.write(values.data(), values.size()));
    const ddisp_tensor_view view = dd::view(DDISP_DTYPE_F32, 64, plain);
    ddisp_arg raw = DDISP_ARG(u.get());
    dd::arg special(v);
    special.policy(DDISP_POLICY_SCRATCH).grad_add(64).grad_read(128);
    DO(kernel.forward(t, u.get(), view, 1, 2.0f, int64_t(3), true, raw, special));
    DO(kernel.backward(t));
    const ddisp_bound bounds[] = {{DDISP_BOUND_EVERY_PARAM, 0, 1.0, 6}};
    DO(dd::launch(kernel, DDISP_MODE_BACKWARD)
           .flags(DDISP_LAUNCH_DETERMINISTIC)
           .bounds(bounds)
           .run(t));
    const dd::launch launch =
        dd::launch(kernel, DDISP_MODE_FORWARD).items(1).grid(1).on(device).flags(0);
    DO(launch.run(t, 2.0));
    (void)launch.try_run(t, 2.0);
    DO(launch.run_array(&raw, 1));
    const dd::plan plan = GET(launch.prepare(t, u));
    DO(plan.launch(t, u));
    DO(plan.launch_on(nullptr, t, u));
    (void)GET(launch.signature(t, u));
    DO(graph.update(0, 0, t));
    DO(graph.update(0, 1, 2.0f));
}
