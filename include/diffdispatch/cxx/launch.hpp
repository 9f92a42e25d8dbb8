/*
 * launch.hpp - kernels, launches, reports, plans and graphs in C++: kernel.h, launch.h, signature.h
 * and graph.h. What a call means, and how it can fail, is said there.
 *
 * Arguments are laid out on the caller's stack; a launch is the one call of the C API and allocates
 * nothing here.
 */
#ifndef DIFFDISPATCH_CXX_LAUNCH_HPP
#define DIFFDISPATCH_CXX_LAUNCH_HPP

#include "../graph.h"
#include "../signature.h"
#include "tensor.hpp"

#include <iterator>

namespace diffdispatch
{
inline namespace DDISP_CXX_MODE
{

/** One argument: a tensor, a view or a scalar, with what is special about it. Made for one call:
 * a view or scalar is referred to, not copied. */
class arg
{
  public:
    arg(const tensor &value) noexcept
    {
        raw_.tensor = value.get();
    }
    arg(ddisp_tensor *value) noexcept
    {
        raw_.tensor = value;
    }
    arg(const ddisp_tensor_view &value) noexcept
    {
        raw_.view = &value;
    }
    template <typename Scalar, typename = std::enable_if_t<std::is_arithmetic_v<Scalar>>>
    arg(const Scalar &value) noexcept
    {
        raw_.scalar = &value;
        raw_.scalar_size = static_cast<uint32_t>(sizeof value);
    }
    arg(const ddisp_arg &raw) noexcept : raw_(raw)
    {
    }
    /** For this input, when it is frozen. */
    arg &policy(ddisp_policy policy) noexcept
    {
        raw_.policy = policy;
        return *this;
    }
    /** Explicit address of the gradient to add to. */
    arg &grad_add(uint64_t address) noexcept
    {
        raw_.grad_add = address;
        return *this;
    }
    /** Explicit address of the upstream gradient. */
    arg &grad_read(uint64_t address) noexcept
    {
        raw_.grad_read = address;
        return *this;
    }
    const ddisp_arg &get() const noexcept
    {
        return raw_;
    }

  private:
    ddisp_arg raw_ = DDISP_ZERO;
};

/** A declared differentiable function. */
class kernel : public shared_handle<kernel, ddisp_kernel, ddisp_kernel_retain, ddisp_kernel_release>
{
  public:
    static result<kernel> create(const context &root, const ddisp_kernel_desc &desc)
    {
        ddisp_kernel *made = nullptr;
        const ddisp_status status = ddisp_kernel_create(root.get(), &desc, &made);
        return detail::give(status, adopt(made));
    }
    /** From arrays or vectors of ddisp_param and ddisp_code. */
    template <typename Params, typename Codes>
    static result<kernel> create(const context &root, const char *name, const Params &params,
                                 const Codes &codes, uint32_t variant_budget = 0)
    {
        auto desc = detail::sized<ddisp_kernel_desc>();
        desc.variant_budget = variant_budget;
        desc.name = name;
        desc.params = std::data(params);
        desc.param_count = static_cast<uint32_t>(std::size(params));
        desc.param_size = static_cast<uint32_t>(sizeof(ddisp_param));
        desc.codes = std::data(codes);
        desc.code_count = static_cast<uint32_t>(std::size(codes));
        desc.code_size = static_cast<uint32_t>(sizeof(ddisp_code));
        return create(root, desc);
    }
    /** Launches with every default, on the device's own stream. */
    template <typename... Args> result<void> forward(const Args &...args) const
    {
        const ddisp_arg list[] = {arg(args).get()...};
        return detail::done(
            ddisp_launch(get(), DDISP_MODE_FORWARD, list, sizeof...(Args), nullptr, nullptr));
    }
    template <typename... Args> result<void> backward(const Args &...args) const
    {
        const ddisp_arg list[] = {arg(args).get()...};
        return detail::done(
            ddisp_launch(get(), DDISP_MODE_BACKWARD, list, sizeof...(Args), nullptr, nullptr));
    }
    result<ddisp_kernel_statistics> statistics() const
    {
        auto statistics = detail::sized<ddisp_kernel_statistics>();
        const ddisp_status status = ddisp_kernel_get_statistics(get(), &statistics);
        return detail::give(status, statistics);
    }
};

/** What a launch did. */
class report : public handle<report, ddisp_report, ddisp_report_release>
{
  public:
    static result<report> create(const context &root)
    {
        ddisp_report *made = nullptr;
        const ddisp_status status = ddisp_report_create(root.get(), &made);
        return detail::give(status, adopt(made));
    }
    result<ddisp_report_info> info() const
    {
        auto info = detail::sized<ddisp_report_info>();
        const ddisp_status status = ddisp_report_get_info(get(), &info);
        return detail::give(status, info);
    }
    result<ddisp_report_slot> slot(uint32_t index) const
    {
        auto slot = detail::sized<ddisp_report_slot>();
        const ddisp_status status = ddisp_report_get_slot(get(), index, &slot);
        return detail::give(status, slot);
    }
    /** The table. */
    result<std::string> format() const
    {
        const ddisp_report *const raw = get();
        return detail::copied<std::string>(
            [raw](char *buffer, uint64_t capacity, uint64_t *length) {
                return ddisp_report_format(raw, buffer, capacity, length);
            });
    }
    /** The signature's one line. */
    result<std::string> label() const
    {
        const ddisp_report *const raw = get();
        return detail::copied<std::string>(
            [raw](char *buffer, uint64_t capacity, uint64_t *length) {
                return ddisp_report_get_label(raw, buffer, capacity, length);
            });
    }
    /** The signature's canonical bytes. */
    result<std::vector<uint8_t>> signature() const
    {
        const ddisp_report *const raw = get();
        return detail::copied<std::vector<uint8_t>>(
            [raw](uint8_t *buffer, uint64_t capacity, uint64_t *length) {
                return ddisp_report_get_signature(raw, buffer, capacity, length);
            });
    }
};

/** A prepared launch. */
class plan : public shared_handle<plan, ddisp_plan, ddisp_plan_retain, ddisp_plan_release>
{
  public:
    /** On the device's own stream. */
    template <typename... Args> result<void> launch(const Args &...args) const
    {
        return launch_on(stream_ref(), args...);
    }
    template <typename... Args> result<void> launch_on(stream_ref on, const Args &...args) const
    {
        const ddisp_arg list[] = {arg(args).get()...};
        return detail::done(ddisp_plan_launch(get(), list, sizeof...(Args), on.get()));
    }
};

/** A launch with options: launch(mul, DDISP_MODE_BACKWARD).policy(...).on(stream).run(a, b, y). May
 * be kept and run again; what it was given must live. */
class launch
{
  public:
    launch(const kernel &of, ddisp_mode mode) noexcept
        : options_(detail::sized<ddisp_launch_options>()), kernel_(of.get()), mode_(mode)
    {
    }
    /** For frozen inputs. */
    launch &policy(ddisp_policy policy) noexcept
    {
        options_.policy = policy;
        return *this;
    }
    /** Adds DDISP_LAUNCH_... */
    launch &flags(uint64_t flags) noexcept
    {
        options_.flags |= flags;
        return *this;
    }
    launch &items(uint64_t x, uint64_t y = 0, uint64_t z = 0) noexcept
    {
        options_.items[0] = x;
        options_.items[1] = y;
        options_.items[2] = z;
        return *this;
    }
    launch &grid(uint32_t x, uint32_t y = 1, uint32_t z = 1) noexcept
    {
        options_.grid[0] = x;
        options_.grid[1] = y;
        options_.grid[2] = z;
        return *this;
    }
    /** For deterministic mode: an array or vector of ddisp_bound, which lives until the launch. */
    template <typename Bounds> launch &bounds(const Bounds &bounds) noexcept
    {
        options_.bounds = std::data(bounds);
        options_.bound_count = static_cast<uint32_t>(std::size(bounds));
        options_.bound_size = static_cast<uint32_t>(sizeof(ddisp_bound));
        return *this;
    }
    launch &on(stream_ref stream) noexcept
    {
        stream_ = stream.get();
        return *this;
    }
    launch &on(const device &device) noexcept
    {
        options_.device = device.get();
        return *this;
    }
    launch &report_to(const report &report) noexcept
    {
        options_.report = report.get();
        return *this;
    }
    /** Receives what went wrong, beside the exception or result. */
    launch &error_to(ddisp_error &error) noexcept
    {
        options_.error = &error;
        return *this;
    }
    /** Options that have no function here. */
    ddisp_launch_options &options() noexcept
    {
        return options_;
    }

    template <typename... Args> result<void> run(const Args &...args) const
    {
        return detail::done(try_run(args...));
    }
    /** Gives the status, also with exceptions. */
    template <typename... Args> ddisp_status try_run(const Args &...args) const noexcept
    {
        const ddisp_arg list[] = {arg(args).get()...};
        return ddisp_launch(kernel_, mode_, list, sizeof...(Args), &options_, stream_);
    }
    /** Arguments whose number is not known when the program is compiled. */
    result<void> run_array(const ddisp_arg *args, uint32_t count) const
    {
        return detail::done(ddisp_launch(kernel_, mode_, args, count, &options_, stream_));
    }
    /** Prepares the launch with these arguments instead. */
    template <typename... Args> result<plan> prepare(const Args &...args) const
    {
        const ddisp_arg list[] = {arg(args).get()...};
        ddisp_plan *made = nullptr;
        const ddisp_status status =
            ddisp_plan_create(kernel_, mode_, list, sizeof...(Args), &options_, stream_, &made);
        return detail::give(status, plan::adopt(made));
    }
    /** Names the launch with these arguments instead. */
    template <typename... Args> result<ddisp_signature> signature(const Args &...args) const
    {
        const ddisp_arg list[] = {arg(args).get()...};
        auto signature = detail::sized<ddisp_signature>();
        const ddisp_status status = ddisp_launch_signature(kernel_, mode_, list, sizeof...(Args),
                                                           &options_, stream_, &signature);
        return detail::give(status, signature);
    }

  private:
    ddisp_launch_options options_;
    ddisp_kernel *kernel_;
    ddisp_stream *stream_ = nullptr;
    ddisp_mode mode_;
};

/** Captured work. */
class graph : public shared_handle<graph, ddisp_graph, ddisp_graph_retain, ddisp_graph_release>
{
  public:
    result<void> launch(stream_ref on = {}) const
    {
        return detail::done(ddisp_graph_launch(get(), on.get()));
    }
    uint32_t launch_count() const noexcept
    {
        return ddisp_graph_launch_count(get());
    }
    result<void> update(uint32_t index, uint32_t argument, const arg &value) const
    {
        return detail::done(ddisp_graph_update(get(), index, argument, &value.get()));
    }
};

inline result<void> stream::begin_capture() const
{
    return detail::done(ddisp_stream_begin_capture(get()));
}
inline result<graph> stream::end_capture() const
{
    ddisp_graph *made = nullptr;
    const ddisp_status status = ddisp_stream_end_capture(get(), &made);
    return detail::give(status, graph::adopt(made));
}

/** Canonical bytes of a signature, read back. */
inline result<ddisp_signature_info> decode_signature(const uint8_t *bytes, uint64_t size_bytes)
{
    auto info = detail::sized<ddisp_signature_info>();
    const ddisp_status status = ddisp_signature_decode(bytes, size_bytes, &info);
    return detail::give(status, info);
}
inline result<ddisp_signature_param> decode_signature_param(const uint8_t *bytes,
                                                            uint64_t size_bytes, uint32_t index)
{
    auto param = detail::sized<ddisp_signature_param>();
    const ddisp_status status = ddisp_signature_decode_param(bytes, size_bytes, index, &param);
    return detail::give(status, param);
}
inline result<std::string> format_signature(const uint8_t *bytes, uint64_t size_bytes)
{
    return detail::copied<std::string>(
        [bytes, size_bytes](char *buffer, uint64_t capacity, uint64_t *length) {
            return ddisp_signature_format(bytes, size_bytes, buffer, capacity, length);
        });
}

} // namespace DDISP_CXX_MODE
} // namespace diffdispatch

#endif
