/*
 * handle.hpp - owning handles of the C++ layer, and the small values that calls take.
 *
 * A handle is a pointer that is given back: it moves, is never copied by accident, and has the size
 * of the pointer. share() makes a second one by a reference more. get() is the C handle, so that
 * every function of the C API can be called beside this layer.
 */
#ifndef DIFFDISPATCH_CXX_HANDLE_HPP
#define DIFFDISPATCH_CXX_HANDLE_HPP

#include "result.hpp"

#include <initializer_list>
#include <type_traits>

namespace diffdispatch
{
inline namespace DDISP_CXX_MODE
{

/** Owns one reference, which Release gives back. */
template <typename Self, typename Raw, void (*Release)(Raw *)> class handle
{
  public:
    using raw_type = Raw;

    constexpr handle() noexcept = default;
    handle(handle &&other) noexcept : raw_(std::exchange(other.raw_, nullptr))
    {
    }
    handle &operator=(handle &&other) noexcept
    {
        Raw *const old = std::exchange(raw_, std::exchange(other.raw_, nullptr));
        if (old)
            Release(old);
        return *this;
    }
    handle(const handle &) = delete;
    handle &operator=(const handle &) = delete;
    ~handle()
    {
        if (raw_)
            Release(raw_);
    }

    /** The C handle, still owned here. NULL when there is none. */
    Raw *get() const noexcept
    {
        return raw_;
    }
    explicit operator bool() const noexcept
    {
        return raw_ != nullptr;
    }
    /** Gives the reference back now. */
    void reset() noexcept
    {
        *this = handle();
    }
    /** Hands the reference to the caller. */
    [[nodiscard]] Raw *release() noexcept
    {
        return std::exchange(raw_, nullptr);
    }
    /** Takes over the caller's reference. */
    static Self adopt(Raw *raw) noexcept
    {
        Self self;
        self.raw_ = raw;
        return self;
    }

  protected:
    Raw *raw_ = nullptr;
};

/** A handle of which there may be several. */
template <typename Self, typename Raw, void (*Retain)(Raw *), void (*Release)(Raw *)>
class shared_handle : public handle<Self, Raw, Release>
{
  public:
    /** One more handle of the same object. */
    Self share() const noexcept
    {
        if (this->raw_)
            Retain(this->raw_);
        return Self::adopt(this->raw_);
    }
    /** A handle of an object that somebody else holds too. */
    static Self retain(Raw *raw) noexcept
    {
        if (raw)
            Retain(raw);
        return Self::adopt(raw);
    }
};

/** A shape, strides or the like, as a call reads them: {2, 3}, an array, a vector. A parameter
 * only: what it refers to must outlive the call. */
class extents
{
  public:
    constexpr extents() noexcept = default;
    extents(std::initializer_list<int64_t> values) noexcept
        : rank_(static_cast<uint32_t>(values.size()))
    {
        data_ = values.begin();
    }
    constexpr extents(const int64_t *data, uint32_t rank) noexcept : data_(data), rank_(rank)
    {
    }
    template <std::size_t N>
    constexpr extents(const int64_t (&values)[N]) noexcept
        : data_(values), rank_(static_cast<uint32_t>(N))
    {
    }
    template <typename Container,
              typename = std::enable_if_t<std::is_same_v<
                  const int64_t *, decltype(std::declval<const Container &>().data())>>>
    extents(const Container &values) noexcept
        : data_(values.data()), rank_(static_cast<uint32_t>(values.size()))
    {
    }
    constexpr const int64_t *data() const noexcept
    {
        return data_;
    }
    constexpr uint32_t rank() const noexcept
    {
        return rank_;
    }

  private:
    const int64_t *data_ = nullptr;
    uint32_t rank_ = 0;
};

} // namespace DDISP_CXX_MODE
} // namespace diffdispatch

#endif
