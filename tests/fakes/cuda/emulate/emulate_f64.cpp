/*
 * emulate_f64.cpp - the kernels for work in f64.
 */
#include "emulate.h"

#define WORK_IN_F64
namespace emulated_f64
{
#include "elements.cu"
#include "reduce.cu"
#include "scatter.cu"
#include "fixed.cu"
#include "shadow.cu"
} // namespace emulated_f64
