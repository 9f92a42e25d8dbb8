/*
 * cost_c.c - the work of test_cost.cpp, written in C.
 */
#include "cost.h"

#define TRY(call)                                                                                  \
    do {                                                                                           \
        const ddisp_status status_ = (call);                                                       \
        if (status_ != DDISP_STATUS_OK)                                                            \
            return status_;                                                                        \
    } while (0)

ddisp_status cost_c(struct cost *on)
{
    const ddisp_arg args[3] = {DDISP_ARG(on->a), DDISP_ARG(on->b), DDISP_ARG(on->y)};
    ddisp_launch_options options = DDISP_ZERO;
    ddisp_tensor *gradient;

    TRY(ddisp_launch(on->kernel, DDISP_MODE_FORWARD, args, 3, NULL, NULL));
    TRY(ddisp_tensor_set_grad(on->y, on->upstream));
    TRY(ddisp_launch(on->kernel, DDISP_MODE_BACKWARD, args, 3, NULL, NULL));
    options.size = (uint32_t)sizeof options;
    options.policy = DDISP_POLICY_SCRATCH;
    options.flags = DDISP_LAUNCH_ZERO_UPSTREAM;
    options.report = on->report;
    TRY(ddisp_tensor_set_grad(on->y, on->upstream));
    TRY(ddisp_launch(on->kernel, DDISP_MODE_BACKWARD, args, 3, &options, on->stream));
    TRY(ddisp_plan_launch(on->plan, args, 3, on->stream));
    TRY(ddisp_tensor_grad(on->a, &gradient));
    TRY(ddisp_tensor_read(gradient, on->values, sizeof on->values, on->stream));
    ddisp_tensor_release(gradient);
    return ddisp_tensor_clear_grad(on->a);
}
