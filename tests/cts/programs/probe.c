/*
 * probe.c - a program that says what it finds on a machine where things are missing (case 50), and
 * computes on the host all the same. One line for each candidate of a backend:
 *
 *   name|status|path|reason
 *
 * then one for each device, `device|spec|uuid`, then "host ok" when y = a b came out right. Before
 * anything else: "loaded|PATH" for a driver library that the program was linked to by accident.
 */
#include "program.h"

#include <stdio.h>
#include <string.h>

static void show_linked_drivers(void)
{
    char line[600];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "libcuda.so") || strstr(line, "libvulkan.so"))
            printf("loaded|%s", strchr(line, '/'));
    if (maps)
        (void)fclose(maps);
}

static int compute(ddisp_context *context)
{
    ddisp_device *device = NULL;
    ddisp_kernel *kernel = NULL;
    ddisp_tensor *x = NULL, *y = NULL;
    int64_t n = 2;
    float data[2] = {3, 5};
    ddisp_kernel_desc desc = describe_kernel(&cts_mul);
    ddisp_status status = ddisp_device_open(context, "host", &device);
    if (!status)
        status = ddisp_kernel_create(context, &desc, &kernel);
    if (!status)
        status = ddisp_tensor_create(device, DDISP_DTYPE_F32, 1, &n, 0, &x);
    if (!status)
        status = ddisp_tensor_create(device, DDISP_DTYPE_F32, 1, &n, 0, &y);
    if (!status)
        status = ddisp_tensor_write(x, data, sizeof data, NULL);
    ddisp_arg args[3] = {DDISP_ARG(x), DDISP_ARG(x), DDISP_ARG(y)};
    if (!status)
        status = ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 3, NULL, NULL);
    if (!status)
        status = ddisp_tensor_read(y, data, sizeof data, NULL);
    ddisp_tensor_release(x);
    ddisp_tensor_release(y);
    ddisp_kernel_release(kernel);
    ddisp_device_release(device);
    return !status && data[0] == 9 && data[1] == 25;
}

int main(void)
{
    ddisp_context *context = NULL;
    uint32_t count = 0;
    show_linked_drivers();
    if (ddisp_context_create(NULL, &context) || ddisp_backend_count(context, &count))
        return 1;
    for (uint32_t i = 0; i < count; i++) {
        ddisp_backend_info info = DDISP_ZERO;
        info.size = (uint32_t)sizeof info;
        if (ddisp_backend_get_info(context, i, &info))
            return 1;
        printf("%s|%s|%s|%s\n", info.name, ddisp_status_name(info.status), info.path, info.reason);
    }
    if (ddisp_device_count(context, &count))
        return 1;
    for (uint32_t i = 0; i < count; i++) {
        ddisp_device_info info = DDISP_ZERO;
        info.size = (uint32_t)sizeof info;
        if (ddisp_device_describe(context, i, &info))
            return 1;
        printf("device|%s|%s\n", info.spec, info.uuid);
    }
    if (compute(context))
        printf("host ok\n");
    ddisp_context_release(context);
    return 0;
}
