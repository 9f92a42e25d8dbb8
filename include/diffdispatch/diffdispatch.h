/*
 * diffdispatch.h - everything a program needs: differentiable GPU kernels, launched right for any
 * mixture of inputs that require a gradient and inputs that do not. docs/guide.md goes from here to
 * a first own kernel.
 */
#ifndef DIFFDISPATCH_DIFFDISPATCH_H
#define DIFFDISPATCH_DIFFDISPATCH_H

#include "accumulate.h"
#include "base.h"
#include "device.h"
#include "dlpack.h"
#include "graph.h"
#include "kernel.h"
#include "launch.h"
#include "signature.h"
#include "tensor.h"

#endif
