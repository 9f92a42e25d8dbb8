/*
 * emulate_f32.cpp - the kernels for work in f32, and those without numbers. In a namespace, because
 * the same files are compiled again for f64.
 */
#include "emulate.h"

namespace emulated_f32
{
#include "moves.cu"
#include "pairs.cu"
#include "quads.cu"
#include "elements.cu"
#include "reduce.cu"
#include "scatter.cu"
#include "fixed.cu"
} // namespace emulated_f32
