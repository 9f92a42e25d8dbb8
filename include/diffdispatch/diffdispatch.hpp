/*
 * diffdispatch.hpp - the library in C++17: the C API with handles that give themselves back,
 * launches that lay out their arguments by themselves, and failures as exceptions or results.
 * Header-only. docs/cxx.md has a whole program.
 *
 * Define DDISP_NO_EXCEPTIONS before including it, or compile with -fno-exceptions, to get results
 * (diffdispatch::result<T>) instead of exceptions (diffdispatch::error).
 */
#ifndef DIFFDISPATCH_DIFFDISPATCH_HPP
#define DIFFDISPATCH_DIFFDISPATCH_HPP

#if __cplusplus < 201703L
#error "diffdispatch.hpp needs C++17; in older C++ include diffdispatch.h"
#endif

#include "cxx/device.hpp"
#include "cxx/launch.hpp"
#include "cxx/tensor.hpp"
#include "diffdispatch.h"

#endif
