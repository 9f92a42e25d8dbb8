/*
 * tap.hpp - cases of a C++ program, their results in the Test Anything Protocol. GET and DO let one
 * source serve both forms of the C++ layer: with exceptions, and with results.
 */
#ifndef DIFFDISPATCH_TESTS_CXX_TAP_HPP
#define DIFFDISPATCH_TESTS_CXX_TAP_HPP

#include <diffdispatch/diffdispatch.hpp>

#include <cstdio>
#include <string>

namespace dd = diffdispatch;

#ifdef DDISP_NO_EXCEPTIONS
#define GET(call) (call).value()
#define DO(call)  tap::require((call).ok(), #call, __LINE__)
#else
#define GET(call) (call)
#define DO(call)  (void)(call)
#endif
#define CHECK(condition) tap::require((condition), #condition, __LINE__)
#define FAIL(text)       tap::require(false, text, __LINE__)

namespace tap
{
inline int count, failed;
inline bool good;

/* A failed condition is noted and the case goes on. */
inline void require(bool condition, const char *text, int line)
{
    if (condition)
        return;
    std::printf("# line %d: %s: %s\n", line, text, dd::last_error_message().c_str());
    good = false;
}

template <typename Case> void run(const std::string &name, Case body)
{
    good = true;
#ifdef DDISP_NO_EXCEPTIONS
    body();
#else
    try {
        body();
    } catch (const std::exception &error) {
        std::printf("# %s\n", error.what());
        good = false;
    }
#endif
    std::printf("%sok %d - %s\n", good ? "" : "not ", ++count, name.c_str());
    failed += !good;
}

inline int finish()
{
    std::printf("1..%d\n", count);
    return failed != 0;
}
} // namespace tap

/* The status that a call fails with. */
#ifdef DDISP_NO_EXCEPTIONS
#define STATUS_OF(call) (call).status()
#else
template <typename Call> ddisp_status status_of(Call call)
{
    try {
        (void)call();
    } catch (const dd::error &error) {
        return error.status();
    }
    return DDISP_STATUS_OK;
}
#define STATUS_OF(call) status_of([&] { (void)(call); })
#endif

#endif
