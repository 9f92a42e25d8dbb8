/*
 * device.hpp - contexts, devices, buffers, streams and events in C++: device.h, with handles that
 * give themselves back. What a call means, and how it can fail, is said there.
 */
#ifndef DIFFDISPATCH_CXX_DEVICE_HPP
#define DIFFDISPATCH_CXX_DEVICE_HPP

#include "../device.h"
#include "handle.hpp"

namespace diffdispatch
{
inline namespace DDISP_CXX_MODE
{

class device;
class graph;

/** The root: loads backends, opens devices. */
class context
    : public shared_handle<context, ddisp_context, ddisp_context_retain, ddisp_context_release>
{
  public:
    static result<context> create()
    {
        return create_from(nullptr);
    }
    static result<context> create(const ddisp_context_desc &desc)
    {
        return create_from(&desc);
    }
    /** Opens "auto", "host", "cuda:0", "vulkan:uuid=..." */
    result<device> open(const char *spec = "auto") const;
    /** A device of the application's own: &desc.head of one of the backend's structs. */
    result<device> wrap(const char *backend, const ddisp_chain *native) const;
    /** Fills one of the backend's structs with what it needs of the application's objects. */
    result<void> backend_needs(const char *backend, ddisp_chain *needs) const
    {
        return detail::done(ddisp_backend_get_needs(get(), backend, needs));
    }
    result<uint32_t> device_count() const
    {
        uint32_t count = 0;
        const ddisp_status status = ddisp_device_count(get(), &count);
        return detail::give(status, count);
    }
    /** A device that need not be open. */
    result<ddisp_device_info> device_info(uint32_t index) const
    {
        auto info = detail::sized<ddisp_device_info>();
        const ddisp_status status = ddisp_device_describe(get(), index, &info);
        return detail::give(status, info);
    }
    result<uint32_t> backend_count() const
    {
        uint32_t count = 0;
        const ddisp_status status = ddisp_backend_count(get(), &count);
        return detail::give(status, count);
    }
    result<ddisp_backend_info> backend_info(uint32_t index) const
    {
        auto info = detail::sized<ddisp_backend_info>();
        const ddisp_status status = ddisp_backend_get_info(get(), index, &info);
        return detail::give(status, info);
    }
    result<std::string> cache_directory() const
    {
        ddisp_context *const raw = get();
        return detail::copied<std::string>(
            [raw](char *buffer, uint64_t capacity, uint64_t *length) {
                return ddisp_context_get_cache_directory(raw, buffer, capacity, length);
            });
    }

  private:
    static result<context> create_from(const ddisp_context_desc *desc)
    {
        ddisp_context *made = nullptr;
        const ddisp_status status = ddisp_context_create(desc, &made);
        return detail::give(status, adopt(made));
    }
};

/** An opened device. */
class device : public shared_handle<device, ddisp_device, ddisp_device_retain, ddisp_device_release>
{
  public:
    result<ddisp_device_info> info() const
    {
        auto info = detail::sized<ddisp_device_info>();
        const ddisp_status status = ddisp_device_get_info(get(), &info);
        return detail::give(status, info);
    }
    result<ddisp_device_statistics> statistics() const
    {
        auto statistics = detail::sized<ddisp_device_statistics>();
        const ddisp_status status = ddisp_device_get_statistics(get(), &statistics);
        return detail::give(status, statistics);
    }
    /** OK while it works, DEVICE_LOST after: never an exception. */
    ddisp_status status() const noexcept
    {
        return ddisp_device_status(get());
    }
    result<void> synchronize(uint64_t timeout_ns = DDISP_TIMEOUT_INFINITE) const
    {
        return detail::done(ddisp_device_synchronize(get(), timeout_ns));
    }
    /** Most bytes handed out at once; 0: no limit. */
    result<void> set_memory_limit(uint64_t limit_bytes) const
    {
        return detail::done(ddisp_device_set_memory_limit(get(), limit_bytes));
    }
    result<void> trim() const
    {
        return detail::done(ddisp_device_trim(get()));
    }
};

inline result<device> context::open(const char *spec) const
{
    ddisp_device *made = nullptr;
    const ddisp_status status = ddisp_device_open(get(), spec, &made);
    return detail::give(status, device::adopt(made));
}

inline result<device> context::wrap(const char *backend, const ddisp_chain *native) const
{
    ddisp_device *made = nullptr;
    const ddisp_status status = ddisp_device_wrap(get(), backend, native, &made);
    return detail::give(status, device::adopt(made));
}

/** An in-order queue of work. */
class stream : public shared_handle<stream, ddisp_stream, ddisp_stream_retain, ddisp_stream_release>
{
  public:
    static result<stream> create(const device &on, uint64_t flags = 0)
    {
        ddisp_stream *made = nullptr;
        const ddisp_status status = ddisp_stream_create(on.get(), flags, &made);
        return detail::give(status, adopt(made));
    }
    /** Over one of the application's own, which lives on. */
    static result<stream> wrap(const device &on, uint64_t native_handle)
    {
        ddisp_stream *made = nullptr;
        const ddisp_status status = ddisp_stream_wrap(on.get(), native_handle, &made);
        return detail::give(status, adopt(made));
    }
    result<void> flush() const
    {
        return detail::done(ddisp_stream_flush(get()));
    }
    result<void> synchronize(uint64_t timeout_ns = DDISP_TIMEOUT_INFINITE) const
    {
        return detail::done(ddisp_stream_synchronize(get(), timeout_ns));
    }
    /** Later work waits for an event of another stream. */
    result<void> wait(const class event &mark) const;
    result<void> begin_capture() const;
    result<graph> end_capture() const;
};

/** Where a call takes a stream: one, or none for the device's own. */
class stream_ref
{
  public:
    constexpr stream_ref() noexcept = default;
    constexpr stream_ref(std::nullptr_t) noexcept
    {
    }
    constexpr stream_ref(ddisp_stream *raw) noexcept : raw_(raw)
    {
    }
    stream_ref(const stream &on) noexcept : raw_(on.get())
    {
    }
    constexpr ddisp_stream *get() const noexcept
    {
        return raw_;
    }

  private:
    ddisp_stream *raw_ = nullptr;
};

/** A mark in a stream. Timed with DDISP_EVENT_TIMED. */
class event : public shared_handle<event, ddisp_event, ddisp_event_retain, ddisp_event_release>
{
  public:
    static result<event> create(const device &on, uint64_t flags = 0)
    {
        ddisp_event *made = nullptr;
        const ddisp_status status = ddisp_event_create(on.get(), flags, &made);
        return detail::give(status, adopt(made));
    }
    result<void> record(stream_ref on = {}) const
    {
        return detail::done(ddisp_event_record(get(), on.get()));
    }
    /** Whether the marked work is done. */
    result<bool> done() const
    {
        const ddisp_status status = ddisp_event_query(get());
        const bool pending = status == DDISP_STATUS_NOT_READY;
        return detail::give(pending ? ddisp_status(DDISP_STATUS_OK) : status, !pending);
    }
    /** Nanoseconds of the device's time since an earlier mark; both are timed. */
    result<uint64_t> elapsed_since(const event &begin) const
    {
        uint64_t passed_ns = 0;
        const ddisp_status status = ddisp_event_elapsed(begin.get(), get(), &passed_ns);
        return detail::give(status, passed_ns);
    }
    /** Has a function called once, on a thread of the library's, when the marked work is done. */
    result<void> notify(ddisp_notify_function function, void *user_data = nullptr) const
    {
        return detail::done(ddisp_event_notify(get(), function, user_data));
    }
    result<void> synchronize(uint64_t timeout_ns = DDISP_TIMEOUT_INFINITE) const
    {
        return detail::done(ddisp_event_synchronize(get(), timeout_ns));
    }
};

inline result<void> stream::wait(const event &mark) const
{
    return detail::done(ddisp_stream_wait_event(get(), mark.get()));
}

/** A range of device memory. */
class buffer : public shared_handle<buffer, ddisp_buffer, ddisp_buffer_retain, ddisp_buffer_release>
{
  public:
    static result<buffer> create(const device &on, uint64_t size_bytes)
    {
        ddisp_buffer *made = nullptr;
        const ddisp_status status = ddisp_buffer_create(on.get(), size_bytes, &made);
        return detail::give(status, adopt(made));
    }
    /** Over memory that the caller owns; release is called once when it is no longer used. */
    static result<buffer> wrap(const device &on, uint64_t address, uint64_t size_bytes,
                               ddisp_release_function release = nullptr, void *user_data = nullptr)
    {
        ddisp_buffer *made = nullptr;
        const ddisp_status status =
            ddisp_buffer_wrap(on.get(), address, size_bytes, release, user_data, &made);
        return detail::give(status, adopt(made));
    }
    /** Over a buffer that is more than an address; as context::wrap. */
    static result<buffer> wrap_native(const device &on, const ddisp_chain *native,
                                      uint64_t size_bytes, ddisp_release_function release = nullptr,
                                      void *user_data = nullptr)
    {
        ddisp_buffer *made = nullptr;
        const ddisp_status status =
            ddisp_buffer_wrap_native(on.get(), native, size_bytes, release, user_data, &made);
        return detail::give(status, adopt(made));
    }
    uint64_t address() const noexcept
    {
        return ddisp_buffer_address(get());
    }
    uint64_t size() const noexcept
    {
        return ddisp_buffer_size(get());
    }
    result<void> write(uint64_t offset_bytes, const void *data, uint64_t size_bytes,
                       stream_ref on = {}) const
    {
        return detail::done(ddisp_buffer_write(get(), offset_bytes, data, size_bytes, on.get()));
    }
    result<void> read(uint64_t offset_bytes, void *data, uint64_t size_bytes,
                      stream_ref on = {}) const
    {
        return detail::done(ddisp_buffer_read(get(), offset_bytes, data, size_bytes, on.get()));
    }
};

} // namespace DDISP_CXX_MODE
} // namespace diffdispatch

#endif
