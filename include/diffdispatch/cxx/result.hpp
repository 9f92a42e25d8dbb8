/*
 * result.hpp - how a call of the C++ layer fails: by an exception, or by a result that is asked.
 *
 * With exceptions a call returns its value and throws diffdispatch::error. With DDISP_NO_EXCEPTIONS
 * defined before the first include, or with -fno-exceptions, it returns a diffdispatch::result<T>,
 * which the compiler wants to be looked at. The two live in namespaces of their own, so that a
 * program may be linked from both.
 */
#ifndef DIFFDISPATCH_CXX_RESULT_HPP
#define DIFFDISPATCH_CXX_RESULT_HPP

#include "../base.h"

#include <cstdint>
#include <string>
#include <utility>

#if !defined(DDISP_NO_EXCEPTIONS) && !defined(__cpp_exceptions)
#define DDISP_NO_EXCEPTIONS
#endif

#ifdef DDISP_NO_EXCEPTIONS
#define DDISP_CXX_MODE checked
#include <cstdio>
#include <cstdlib>
#else
#define DDISP_CXX_MODE throwing
#include <stdexcept>
#endif

namespace diffdispatch
{

/** The calling thread's most recent failure: status, argument at fault, the driver's code. */
inline ddisp_error last_error() noexcept
{
    ddisp_error error = DDISP_ZERO;
    error.size = static_cast<uint32_t>(sizeof error);
    (void)ddisp_last_error_detail(&error);
    return error;
}

/** Its message, whole. */
inline std::string last_error_message()
{
    uint64_t length = 0;
    (void)ddisp_last_error(nullptr, 0, &length);
    std::string message(static_cast<std::size_t>(length), '\0');
    (void)ddisp_last_error(&message[0], length + 1, nullptr);
    return message;
}

inline namespace DDISP_CXX_MODE
{

#ifndef DDISP_NO_EXCEPTIONS

/** What a failed call throws. what() is the status's name and the library's message. */
class error : public std::runtime_error
{
  public:
    explicit error(ddisp_status status)
        : std::runtime_error(std::string(ddisp_status_name(status)) + ": " + last_error_message()),
          status_(status)
    {
        const ddisp_error detail = last_error();
        argument_ = detail.argument;
        native_code_ = detail.native_code;
    }
    ddisp_status status() const noexcept
    {
        return status_;
    }
    /** Index of the launch argument at fault, -1 when none. */
    int32_t argument() const noexcept
    {
        return argument_;
    }
    /** The driver's own code, 0 when none. */
    int64_t native_code() const noexcept
    {
        return native_code_;
    }

  private:
    ddisp_status status_;
    int32_t argument_;
    int64_t native_code_;
};

/** What a call returns: the value itself. */
template <typename T> using result = T;

namespace detail
{
[[noreturn]] inline void fail(ddisp_status status)
{
    throw error(status);
}
inline void done(ddisp_status status)
{
    if (status != DDISP_STATUS_OK)
        fail(status);
}
template <typename T> T give(ddisp_status status, T value)
{
    done(status);
    return value;
}
} // namespace detail

#else

/** What a call returns: a status, and the value where it is OK. */
template <typename T> class [[nodiscard]] result
{
  public:
    result(ddisp_status status, T value) noexcept : value_(std::move(value)), status_(status)
    {
    }
    bool ok() const noexcept
    {
        return status_ == DDISP_STATUS_OK;
    }
    explicit operator bool() const noexcept
    {
        return ok();
    }
    ddisp_status status() const noexcept
    {
        return status_;
    }
    /** The value. Of a failed call there is none: that ends the program with its message. */
    T &value() &
    {
        require();
        return value_;
    }
    const T &value() const &
    {
        require();
        return value_;
    }
    T &&value() &&
    {
        require();
        return std::move(value_);
    }
    T &operator*() &
    {
        return value();
    }
    const T &operator*() const &
    {
        return value();
    }
    T &&operator*() &&
    {
        return std::move(*this).value();
    }
    T *operator->()
    {
        return &value();
    }
    const T *operator->() const
    {
        return &value();
    }

  private:
    void require() const
    {
        if (ok())
            return;
        std::fprintf(stderr, "diffdispatch: value() of a failed call: %s: %s\n",
                     ddisp_status_name(status_), last_error_message().c_str());
        std::abort();
    }
    T value_;
    ddisp_status status_;
};

/** Of a call that gives nothing but its status. */
template <> class [[nodiscard]] result<void>
{
  public:
    constexpr explicit result(ddisp_status status) noexcept : status_(status)
    {
    }
    constexpr bool ok() const noexcept
    {
        return status_ == DDISP_STATUS_OK;
    }
    constexpr explicit operator bool() const noexcept
    {
        return ok();
    }
    constexpr ddisp_status status() const noexcept
    {
        return status_;
    }

  private:
    ddisp_status status_;
};

namespace detail
{
constexpr result<void> done(ddisp_status status) noexcept
{
    return result<void>(status);
}
template <typename T> result<T> give(ddisp_status status, T value) noexcept
{
    return result<T>(status, std::move(value));
}
} // namespace detail

#endif

namespace detail
{
/** A struct of the API with its size, all else zero. */
template <typename T> T sized() noexcept
{
    T value = DDISP_ZERO;
    value.size = static_cast<uint32_t>(sizeof value);
    return value;
}
/** What a function copies into a caller's buffer; get(buffer, capacity, out_length). */
template <typename Text, typename Get> result<Text> copied(Get get)
{
    uint64_t length = 0;
    Text text;
    ddisp_status status = get(nullptr, 0, &length);
    if (status == DDISP_STATUS_OK || status == DDISP_STATUS_BUFFER_TOO_SMALL) {
        // One more for a text's NUL, which is cut off again.
        text.resize(static_cast<std::size_t>(length) + 1);
        status = get(&text[0], length + 1, &length);
        text.resize(static_cast<std::size_t>(length));
    }
    return give(status, std::move(text));
}
} // namespace detail

} // namespace DDISP_CXX_MODE
} // namespace diffdispatch

#endif
