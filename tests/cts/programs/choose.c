/*
 * choose.c - for case 40: opens each device of a backend by index and by UUID, in 20 contexts; both
 * ways must give the device that was described. Status 77: the backend has no device here.
 */
#include <diffdispatch/diffdispatch.h>

#include <stdio.h>
#include <string.h>

static void describe(ddisp_device *device, ddisp_device_info *info)
{
    memset(info, 0, sizeof *info);
    info->size = (uint32_t)sizeof *info;
    (void)ddisp_device_get_info(device, info);
}

/* Whether a spec opens this device. */
static int opens(ddisp_context *context, const char *spec, const ddisp_device_info *wanted)
{
    ddisp_device *device = NULL;
    ddisp_device_info info;
    char message[512] = "";
    ddisp_status status = ddisp_device_open(context, spec, &device);
    if (status) {
        (void)ddisp_last_error(message, sizeof message, NULL);
        printf("%s: %s: %s\n", spec, ddisp_status_name(status), message);
        return 0;
    }
    describe(device, &info);
    ddisp_device_release(device);
    int right = strcmp(info.uuid, wanted->uuid) == 0 && strcmp(info.spec, wanted->spec) == 0;
    if (!right)
        printf("%s opens %s (%s) instead of %s (%s)\n", spec, info.spec, info.uuid, wanted->spec,
               wanted->uuid);
    return right;
}

int main(int argument_count, char **arguments)
{
    int right = argument_count == 2;
    for (int round = 0; round < 20 && right; round++) {
        ddisp_context *context = NULL;
        uint32_t count = 0, seen = 0;
        if (ddisp_context_create(NULL, &context) || ddisp_device_count(context, &count))
            return 1;
        for (uint32_t i = 0; i < count && right; i++) {
            ddisp_device_info info = DDISP_ZERO;
            char spec[128];
            info.size = (uint32_t)sizeof info;
            if (ddisp_device_describe(context, i, &info) || strcmp(info.backend, arguments[1]) != 0)
                continue;
            (void)snprintf(spec, sizeof spec, "%s:uuid=%s", info.backend, info.uuid);
            right = opens(context, info.spec, &info) && opens(context, spec, &info);
            seen++;
        }
        ddisp_context_release(context);
        if (!seen)
            return 77;
    }
    return right ? 0 : 1;
}
