/*
 * requests.h - the requests of golden.txt as programs make them: golden.py says how they are
 * written.
 */
#ifndef DDISP_TESTS_REQUESTS_H
#define DDISP_TESTS_REQUESTS_H

#include "compiler_fixture.h"

#define MOST_REQUESTS 128
#define MOST_PARTS    8

/** A request with everything that its descriptions point to. */
struct request {
    char name[64];
    char architecture[32];
    uint32_t vendor_id, device_id, driver_id;
    uint64_t features;
    ddisp_param params[MOST_PARTS];
    char param_names[MOST_PARTS][32];
    uint32_t param_count;
    ddisp_code codes[2];
    uint32_t code_count;
    struct code_parts {
        char source[512], options[64];
        ddisp_header headers[2];
        char header_names[2][32], header_texts[2][64];
        ddisp_code_param params[MOST_PARTS];
        ddisp_entry entries[4];
        char entry_names[4][32];
        ddisp_native_arg natives[4];
    } parts[2];
    ddisp_mode mode;
    ddisp_launch_options options;
    ddisp_arg args[MOST_PARTS];
    ddisp_tensor_view views[MOST_PARTS];
    int64_t shapes[MOST_PARTS][8], strides[MOST_PARTS][3][8]; /* of data, add, read */
    uint64_t scalars[MOST_PARTS];
    uint32_t arg_count;
    uint8_t kernel[16], hash[16], bytes[1024];
    uint32_t byte_count;
};

/** Reads a file of requests; returns how many. They stay where they are and are not copied. */
uint32_t requests_read(const char *path, struct request *requests);
/** Makes context, device and kernel of a request and asks for the signature of its launch. */
void request_signature(struct request *request, ddisp_signature *out_signature);
/** The same for a kernel that was made: the launch alone. */
ddisp_status request_launch_signature(struct request *request, ddisp_kernel *kernel,
                                      ddisp_device *device, ddisp_signature *out_signature);
ddisp_status request_kernel(struct request *request, ddisp_context *context,
                            ddisp_kernel **out_kernel);
/** Tells the plugin which device to be. */
void request_device(const struct request *request);

#endif
