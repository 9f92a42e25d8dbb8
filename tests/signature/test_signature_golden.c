/*
 * test_signature_golden.c - the library's signatures are those of golden.txt, byte for byte, and
 * read back as the requests say. Refuses what it cannot have written. Run with the path of
 * golden.txt.
 */
#include "requests.h"

#include <stdlib.h>

static struct request requests[MOST_REQUESTS];
static uint32_t request_count;

/* ---- bytes */

static void library_gives_the_golden_bytes(void **state)
{
    (void)state;
    static ddisp_signature signature;
    for (uint32_t i = 0; i < request_count; i++) {
        struct request *r = &requests[i];
        request_signature(r, &signature);
        uint32_t at = 0;
        while (at < r->byte_count && at < signature.byte_count &&
               signature.bytes[at] == r->bytes[at])
            at++;
        if (signature.byte_count != r->byte_count || at < r->byte_count)
            fail_msg("%s: %u bytes instead of %u; byte %u differs", r->name, signature.byte_count,
                     r->byte_count, at);
        assert_memory_equal(signature.hash, r->hash, 16);
    }
    assert_true(request_count >= 40);
}

/* What the request leaves undefined (padding, unused fields, the stack) has no part in it. */
static void dirty_memory_makes_no_difference(void **state)
{
    (void)state;
    static ddisp_signature signature;
    static struct request copy;
    for (int noise = 0; noise < 256; noise += 85)
        for (uint32_t i = 0; i < request_count; i += 5) {
            struct request *r = &requests[i];
            unsigned char stack[16384];
            memset(stack, noise, sizeof stack); /* left behind for the calls below */
            __asm__ volatile("" ::"r"(stack) : "memory");
            copy = *r;
            for (uint32_t a = 0; a < r->arg_count; a++) /* past the rank nothing is read */
                for (uint32_t axis = r->views[a].rank; axis < 8; axis++)
                    r->shapes[a][axis] = r->strides[a][0][axis] = (int64_t)noise * 0x01010101;
            request_signature(r, &signature);
            *r = copy;
            assert_int_equal(signature.byte_count, r->byte_count);
            assert_memory_equal(signature.bytes, r->bytes, r->byte_count);
            for (uint32_t b = signature.byte_count; b < DDISP_SIGNATURE_CAPACITY; b++)
                assert_int_equal(signature.bytes[b], 0);
        }
}

/* ---- reading back */

static void check_param(const struct request *r, uint32_t i, const ddisp_signature_param *p)
{
    const ddisp_param *param = &r->params[i];
    const ddisp_tensor_view *view = r->args[i].view;
    bool differentiable = (param->flags & DDISP_PARAM_DIFFERENTIABLE) != 0;
    bool backward = r->mode == DDISP_MODE_BACKWARD;
    bool add = backward && differentiable && (param->access & DDISP_ACCESS_IN);
    bool read = backward && differentiable && (param->access & DDISP_ACCESS_OUT);
    assert_int_equal(p->kind, param->kind);
    assert_int_equal(p->access, param->access);
    if (!view) {
        assert_int_equal(p->dtype, param->dtype);
        return;
    }
    bool grad = add && (view->flags & DDISP_VIEW_REQUIRES_GRAD);
    bool upstream = read && r->args[i].grad_read;
    assert_int_equal(p->dtype, view->dtype);
    assert_int_equal(p->rank, view->rank);
    assert_int_equal(!!(p->flags & DDISP_SIGNATURE_HAS_ADD), add);
    assert_int_equal(!!(p->flags & DDISP_SIGNATURE_HAS_READ), read);
    assert_int_equal(!!(p->flags & DDISP_SIGNATURE_REQUIRES_GRAD), grad);
    assert_int_equal(!!(p->flags & DDISP_SIGNATURE_UPSTREAM), upstream);
    ddisp_policy policy = r->args[i].policy ? r->args[i].policy : r->options.policy;
    assert_int_equal(p->policy, add && !grad ? (policy ? policy : DDISP_POLICY_AUTO) : 0);
    assert_int_equal(p->write_modes != 0, add);
    ddisp_dtype dtype = view->dtype == DDISP_DTYPE_F16 || view->dtype == DDISP_DTYPE_BF16
                            ? DDISP_DTYPE_F32
                            : view->dtype;
    if (view->grad_dtype)
        dtype = view->grad_dtype;
    assert_int_equal(p->add_dtype, grad ? dtype : 0);
    assert_int_equal(p->read_dtype, upstream ? dtype : 0);
    if (!view->strides)
        assert_int_equal(p->layout, DDISP_LAYOUT_DENSE);
}

static void library_reads_the_golden_bytes_back(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < request_count; i++) {
        const struct request *r = &requests[i];
        ddisp_signature_info info = {.size = (uint32_t)sizeof info};
        ddisp_signature_param param = {.size = (uint32_t)sizeof param};
        char text[4096];
        assert_ok(ddisp_signature_decode(r->bytes, r->byte_count, &info));
        assert_int_equal(info.version, 2);
        assert_int_equal(info.mode, r->mode);
        assert_int_equal(info.param_count, r->arg_count);
        assert_string_equal(info.backend, "compiler");
        assert_string_equal(info.architecture, r->architecture);
        assert_int_equal(info.vendor_id, r->vendor_id);
        assert_int_equal(info.device_id, r->device_id);
        assert_int_equal(info.driver_id, r->driver_id);
        assert_int_equal(info.features, r->features);
        assert_int_equal(info.flags, r->mode == DDISP_MODE_BACKWARD
                                         ? r->options.flags &
                                               ~(DDISP_LAUNCH_DRY_RUN | DDISP_LAUNCH_DETERMINISTIC)
                                         : 0);
        assert_int_equal(info.deterministic,
                         r->mode == DDISP_MODE_BACKWARD &&
                             (r->options.flags & DDISP_LAUNCH_DETERMINISTIC) != 0);
        assert_int_equal(info.index_width, 64);
        assert_memory_equal(info.kernel, r->kernel, 16);
        assert_memory_equal(info.hash, r->hash, 16);
        for (uint32_t k = 0; k < info.param_count; k++) {
            assert_ok(ddisp_signature_decode_param(r->bytes, r->byte_count, k, &param));
            check_param(r, k, &param);
        }
        assert_fails(
            DDISP_STATUS_INVALID_ARGUMENT, "parameters",
            ddisp_signature_decode_param(r->bytes, r->byte_count, info.param_count, &param));
        assert_ok(ddisp_signature_format(r->bytes, r->byte_count, text, sizeof text, NULL));
        assert_non_null(strstr(text, r->architecture));
    }
}

static const struct request *named(const char *name)
{
    for (uint32_t i = 0; i < request_count; i++)
        if (strcmp(requests[i].name, name) == 0)
            return &requests[i];
    fail_msg("there is no request '%s'", name);
    return NULL;
}

static void text_is_for_people(void **state)
{
    (void)state;
    const struct request *r = named("frozen_b");
    char text[1024], expected[1024], kernel[33], cut[9];
    uint64_t length;
    for (int i = 0; i < 16; i++)
        (void)snprintf(kernel + 2 * i, 3, "%02x", r->kernel[i]);
    (void)snprintf(expected, sizeof expected,
                   "backward on compiler:rpn_1, vendor 0x0, device 0x0, driver 0, features 0x0, "
                   "kernel %s, flags 0x0\n"
                   "  0 in f32[1] dense, requires grad f32 dense by atomic add\n"
                   "  1 in f32[1] dense, frozen, policy auto by atomic add\n"
                   "  2 out f32[1] dense, upstream f32 dense",
                   kernel);
    assert_ok(ddisp_signature_format(r->bytes, r->byte_count, text, sizeof text, &length));
    assert_string_equal(text, expected);
    assert_int_equal(length, strlen(expected));
    assert_fails(DDISP_STATUS_BUFFER_TOO_SMALL, "",
                 ddisp_signature_format(r->bytes, r->byte_count, cut, sizeof cut, &length));
    assert_string_equal(cut, "backward");
    assert_int_equal(length, strlen(expected));
    r = named("aliases_of_several");
    assert_ok(ddisp_signature_format(r->bytes, r->byte_count, text, sizeof text, NULL));
    assert_non_null(strstr(text,
                           "  2 in f32[1] dense, data of 0, requires grad f32 dense by atomic "
                           "add, gradient of 1\n"));
    r = named("overlapping");
    assert_ok(ddisp_signature_format(r->bytes, r->byte_count, text, sizeof text, NULL));
    assert_non_null(strstr(text, "  0 in f32[2] strided, overlapping, requires grad f32 strided, "
                                 "overlapping by atomic add\n"));
    r = named("inout_and_scalars");
    assert_ok(ddisp_signature_format(r->bytes, r->byte_count, text, sizeof text, NULL));
    assert_non_null(strstr(text, "  0 in i32 scalar\n  1 inout f32[2] dense, requires grad f32 "
                                 "dense by atomic add, upstream f32 broadcast\n"));
}

/* ---- what is refused */

static ddisp_status decode(const uint8_t *bytes, uint64_t size)
{
    ddisp_signature_info info = {.size = (uint32_t)sizeof info};
    return ddisp_signature_decode(bytes, size, &info);
}

static void other_lengths_are_refused(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < request_count; i++) {
        struct request *r = &requests[i];
        for (uint32_t length = 0; length < r->byte_count; length++) {
            uint8_t *exact = malloc(length + 1); /* a read beyond the end is a sanitizer's find */
            memcpy(exact, r->bytes, length);
            assert_int_equal(decode(exact, length), DDISP_STATUS_INVALID_ARGUMENT);
            free(exact);
        }
        r->bytes[r->byte_count] = 0;
        assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "1 bytes follow the last parameter",
                     decode(r->bytes, r->byte_count + 1));
    }
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "bytes is NULL", decode(NULL, 10));
    assert_fails(DDISP_STATUS_INVALID_ARGUMENT, "signature of 0 bytes: byte 0: it ends here",
                 decode(requests[0].bytes, 0));
}

/* One byte other than it was: refused with its place, or taken for another request. */
static void other_values_are_refused_or_read_as_what_they_say(void **state)
{
    (void)state;
    uint32_t refused = 0, taken = 0;
    for (uint32_t i = 0; i < request_count; i += 3) {
        struct request *r = &requests[i];
        for (uint32_t at = 0; at < r->byte_count; at++)
            for (uint32_t value = 0; value < 256; value++) {
                uint8_t kept = r->bytes[at];
                ddisp_signature_info info = {.size = (uint32_t)sizeof info};
                if (value == kept)
                    continue;
                r->bytes[at] = (uint8_t)value;
                ddisp_status status = ddisp_signature_decode(r->bytes, r->byte_count, &info);
                if (status == DDISP_STATUS_OK) {
                    taken++;
                    assert_memory_not_equal(info.hash, r->hash, 16);
                } else {
                    refused++;
                    assert_int_equal(status, at == 2 ? DDISP_STATUS_INCOMPATIBLE
                                                     : DDISP_STATUS_INVALID_ARGUMENT);
                }
                r->bytes[at] = kept;
            }
    }
    assert_true(refused > 10000 && taken > 10000);
}

static void malformed_bytes_are_named(void **state)
{
    (void)state;
    /* Offsets of the first parameter's fields: backend "compiler" and architecture "rpn_1". */
    enum { HEAD = 3 + 9 + 6 + 20, MODE = HEAD + 16, COUNT = MODE + 12, FIRST = COUNT + 1 };
    static const struct {
        uint32_t at;
        uint8_t value;
        const char *says;
    } tries[] = {{0, 'X', "byte 0: a signature begins with \"DS\""},
                 {3, 0, "byte 3: length of the backend's name is 0, expected 1 to 31"},
                 {3, 32, "byte 3: length of the backend's name is 32, expected 1 to 31"},
                 {4, '\n', "byte 4: length of the backend's name that begins at byte 3 is no text"},
                 {MODE, 3, "mode is 3, expected 1 to 2"},
                 {MODE + 1, 16, "flags 0x10 have no part in a signature of this mode"},
                 {MODE + 1, 32, "flags 0x20 have no part in a signature of this mode"},
                 {MODE + 9, 32, "index width is 32, expected 64 to 64"},
                 {MODE + 10, 2, "deterministic mode is 2, expected 0 to 1"},
                 {COUNT, 65, "number of parameters is 65, expected 0 to 64"},
                 {FIRST, 2, "kind is 2, expected 0 to 1"},
                 {FIRST + 1, 0, "access is 0, expected 1 to 3"},
                 {FIRST + 2, 14, "dtype is 14, expected 1 to 13"},
                 {FIRST + 3, 9, "rank is 9, expected 0 to 8"},
                 {FIRST + 4, 3, "unknown layout class 3"},
                 {FIRST + 4, 12, "unknown layout class 12"},
                 {FIRST + 5, 32, "alignment class is 32, expected 0 to 31"},
                 {FIRST + 6, 1, "alias class is 1, expected 0 to 0"},
                 {FIRST + 7, 2, "slots 0x2 do not fit the parameter"},
                 {FIRST + 7, 7, "slots 0x7 do not fit the parameter"},
                 {FIRST + 8, 1, "policy is 1, expected 0 to 0"},
                 {FIRST + 9, 0, "write modes is 0, expected 1 to 31"},
                 {FIRST + 10, 7, "dtype of the gradient is 7, expected 10 to 13"},
                 {FIRST + 11, 0, "unknown layout class 0"},
                 {FIRST + 12, 1, "alias class of the gradient is 1, expected 0 to 0"},
                 {FIRST + 13, 12, "dtype of the upstream gradient is 12, expected 0 to 0"}};
    struct request *r = &requests[0]; /* frozen_b */
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        uint8_t kept = r->bytes[tries[i].at];
        r->bytes[tries[i].at] = tries[i].value;
        assert_fails(DDISP_STATUS_INVALID_ARGUMENT, tries[i].says, decode(r->bytes, r->byte_count));
        r->bytes[tries[i].at] = kept;
    }
    r->bytes[2] = 1;
    assert_fails(DDISP_STATUS_INCOMPATIBLE, "encoding version 1, this library reads version 2",
                 decode(r->bytes, r->byte_count));
    r->bytes[2] = 2;
}

int main(int count, char **values)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(library_gives_the_golden_bytes),
        cmocka_unit_test(dirty_memory_makes_no_difference),
        cmocka_unit_test(library_reads_the_golden_bytes_back),
        cmocka_unit_test(text_is_for_people),
        cmocka_unit_test(other_lengths_are_refused),
        cmocka_unit_test(other_values_are_refused_or_read_as_what_they_say),
        cmocka_unit_test(malformed_bytes_are_named),
    };
    if (count != 2)
        return 2;
    request_count = requests_read(values[1], requests);
    return cmocka_run_group_tests_name("signature_golden", tests, NULL, NULL);
}
