/* What every statement block of the documentation may use; see CONTRIBUTING.md, "Code in the
 * documentation". */
#include <diffdispatch/diffdispatch.h>

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        if ((call) != DDISP_STATUS_OK)                                                             \
            abort();                                                                               \
    } while (0)

#ifdef __cplusplus
extern "C" {
#endif
extern ddisp_context *ctx;
extern ddisp_device *dev;
extern ddisp_stream *stream;
extern ddisp_kernel *mul;
extern ddisp_tensor *a, *b, *y, *ga, *gb, *gy;
extern ddisp_report *report;
extern ddisp_param params[3];
extern ddisp_code mul_codes[4];
extern ddisp_arg args[3];
extern int64_t n, shape[1];
extern float *host_a, *host_b, *host_y, *host_gy, *host_ga;
#ifdef __cplusplus
}
#endif
