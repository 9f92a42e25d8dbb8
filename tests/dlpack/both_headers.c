/*
 * both_headers.c - compiles only when the public header agrees with the system's dlpack.h.
 */
#include <dlpack/dlpack.h>

#include <diffdispatch/dlpack.h>

ddisp_status take(ddisp_device *device, DLManagedTensor *managed, ddisp_tensor **out_tensor);

ddisp_status take(ddisp_device *device, DLManagedTensor *managed, ddisp_tensor **out_tensor)
{
    return ddisp_tensor_from_dlpack(device, managed, 0, NULL, out_tensor);
}
