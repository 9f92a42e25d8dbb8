/*
 * test_signature.c - golden vectors of signatures: requests whose bytes and hashes were computed by
 * signature_vectors.py from docs/signature.md. And: what must not change them, does not; what must,
 * does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "launch.h"

/* A request, as far as its signature is concerned. */
struct vector_slot {
    int exists, wanted, policy, dtype;
    int64_t strides[4];
};
struct vector_param {
    int kind;
    const char *name;
    int access, dtype, rank;
    int64_t shape[4], strides[4];
    uint64_t address;
    int alias;
    struct vector_slot add, read;
};
struct vector {
    int mode;
    const char *backend, *architecture;
    uint32_t vendor, device;
    uint64_t features, kernel_low, kernel_high;
    int flags, alignment, param_count;
    struct vector_param params[8];
    uint32_t size;
    const char *bytes;
    uint64_t hash_low, hash_high;
};

#include "signature_vectors.h"

enum { VECTORS = sizeof vectors / sizeof vectors[0] };

struct request {
    ddisp_device device;
    ddisp_kernel kernel;
    ddisp_param params[8];
    ddisp__launch launch;
};

static void fill_slot(ddisp__slot *slot, const struct vector_slot *from,
                      const struct vector_param *p)
{
    slot->exists = from->exists;
    slot->wanted = from->wanted;
    slot->policy = (ddisp_policy)from->policy;
    if (!from->wanted)
        return;
    slot->gradient.dtype = (ddisp_dtype)from->dtype;
    assert_int_equal(ddisp__layout_make("gradient", slot->gradient.dtype, (uint32_t)p->rank,
                                        p->shape, from->strides, &slot->gradient.layout),
                     0);
}

/* The launch of a vector. Fields that no signature reads are full of noise. */
static struct request *request(const struct vector *v, int noise)
{
    struct request *r = malloc(sizeof *r);
    assert_non_null(r);
    memset(r, noise, sizeof *r);
    memset(&r->device.info, 0, sizeof r->device.info);
    (void)snprintf(r->device.info.backend, sizeof r->device.info.backend, "%s", v->backend);
    (void)snprintf(r->device.info.architecture, sizeof r->device.info.architecture, "%s",
                   v->architecture);
    r->device.info.vendor_id = v->vendor;
    r->device.info.device_id = v->device;
    r->device.info.features = v->features;
    ddisp__signature_device(&r->device.info, &r->device.signature_head);
    r->kernel.hash = (ddisp__hash){v->kernel_low, v->kernel_high};
    r->launch.kernel = &r->kernel;
    r->launch.device = &r->device;
    r->launch.mode = (ddisp_mode)v->mode;
    r->launch.options.flags = (uint64_t)v->flags;
    r->launch.count = (uint32_t)v->param_count;
    for (int i = 0; i < v->param_count; i++) {
        const struct vector_param *p = &v->params[i];
        ddisp__operand *operand = &r->launch.operands[i];
        memset(operand, 0, sizeof *operand);
        r->params[i] = (ddisp_param){
            .name = p->name, .kind = (ddisp_param_kind)p->kind, .access = (ddisp_access)p->access};
        operand->param = &r->params[i];
        operand->dtype = (ddisp_dtype)p->dtype;
        r->kernel.alignments[i] = (uint32_t)v->alignment;
        r->kernel.write_modes[i] = 1;
        if (p->kind)
            continue;
        assert_int_equal(ddisp__layout_make("data", operand->dtype, (uint32_t)p->rank, p->shape,
                                            p->strides, &operand->layout),
                         0);
        operand->address = p->address;
        operand->alias = (uint32_t)p->alias;
        fill_slot(&operand->add, &p->add, p);
        fill_slot(&operand->read, &p->read, p);
    }
    return r;
}

static void golden_vectors(void **unused)
{
    static const int noises[] = {0x00, 0xFF, 0x5A};
    (void)unused;
    for (int n = 0; n < 3; n++)
        for (int i = 0; i < VECTORS; i++) {
            struct request *r = request(&vectors[i], noises[n]);
            ddisp__signature_write(&r->launch);
            uint32_t size = r->launch.signature_size;
            int same =
                size == vectors[i].size && memcmp(r->launch.signature, vectors[i].bytes, size) == 0;
            for (uint32_t b = 0; b < size && !same; b++)
                if (b >= vectors[i].size ||
                    r->launch.signature[b] != (uint8_t)vectors[i].bytes[b]) {
                    printf("# vector %d: %u bytes instead of %u, the first that differs is %u\n", i,
                           size, vectors[i].size, b);
                    break;
                }
            assert_true(same);
            assert_int_equal(r->launch.hash.low, vectors[i].hash_low);
            assert_int_equal(r->launch.hash.high, vectors[i].hash_high);
            free(r);
        }
}

/* The third vector is backward of y = a b with b frozen. */
static struct request *frozen_b(void)
{
    return request(&vectors[2], 0);
}

static ddisp__hash hash_of(struct request *r)
{
    ddisp__signature_device(&r->device.info, &r->device.signature_head);
    ddisp__signature_write(&r->launch);
    ddisp__hash hash = r->launch.hash;
    free(r);
    return hash;
}

static int equal(ddisp__hash a, ddisp__hash b)
{
    return a.low == b.low && a.high == b.high;
}

/* Whoever changes strides says that they are to be looked at. */
static void forget_density(struct request *r)
{
    for (uint32_t i = 0; i < r->launch.count; i++) {
        ddisp__operand *operand = &r->launch.operands[i];
        operand->layout.dense = operand->add.gradient.layout.dense = false;
        operand->read.gradient.layout.dense = false;
    }
}

/* One change of the request, and whether it is another signature then. */
#define CHANGED(is_another, change)                                                                \
    do {                                                                                           \
        struct request *r = frozen_b();                                                            \
        ddisp__operand *a = &r->launch.operands[0], *b = &r->launch.operands[1],                   \
                       *y = &r->launch.operands[2];                                                \
        (void)a, (void)b, (void)y;                                                                 \
        change;                                                                                    \
        forget_density(r);                                                                         \
        if (equal(hash_of(r), hash_of(frozen_b())) == (is_another)) {                              \
            printf("# %s\n", #change);                                                             \
            fail();                                                                                \
        }                                                                                          \
    } while (0)

static void addresses_extents_and_names_are_no_part(void **unused)
{
    (void)unused;
    CHANGED(0, a->address += 4096);
    CHANGED(0, b->address = 0x20001);
    CHANGED(0, a->layout.shape[0] = a->layout.numel = 99);
    CHANGED(0, r->params[0].name = "alpha");
    CHANGED(0, r->kernel.name = NULL);
    CHANGED(0, r->launch.items = 77);
    CHANGED(0, a->add.gradient.address = 12345);
    CHANGED(0, r->launch.options.flags |= DDISP_LAUNCH_DRY_RUN);
    CHANGED(0, (void)snprintf(r->device.info.driver, 9, "580.1"));
    CHANGED(0, r->device.info.driver_version = 580);
    CHANGED(0, (void)snprintf(r->device.info.uuid, 9, "other"));
    CHANGED(0, r->device.info.memory_bytes = 1);
}

static void everything_that_changes_code_or_backing_is_part(void **unused)
{
    (void)unused;
    CHANGED(1, a->add.wanted = 0);
    CHANGED(1, b->add.policy = DDISP_POLICY_SCRATCH);
    CHANGED(1, y->read.wanted = 0);
    CHANGED(1, a->add.gradient.dtype = DDISP_DTYPE_F64);
    CHANGED(1, a->add.gradient.layout.strides[0] = 0);
    CHANGED(1, a->add.gradient.layout.strides[0] = 3);
    CHANGED(1, y->read.gradient.layout.strides[0] = 0);
    CHANGED(1, y->read.gradient.dtype = DDISP_DTYPE_F64);
    CHANGED(1, b->layout.strides[0] = 2);
    CHANGED(1, b->layout.strides[0] = 0);
    CHANGED(1, b->dtype = DDISP_DTYPE_F64);
    CHANGED(1, b->alias = 1);
    CHANGED(1, b->layout.rank = 2);
    CHANGED(1, r->launch.mode = DDISP_MODE_FORWARD);
    CHANGED(1, r->launch.options.flags = DDISP_LAUNCH_ZERO_UPSTREAM);
    CHANGED(1, r->launch.options.flags = DDISP_LAUNCH_OVERWRITE);
    CHANGED(1, r->kernel.hash.low++);
    CHANGED(1, r->kernel.hash.high++);
    CHANGED(1, (void)snprintf(r->device.info.backend, 9, "vulkan"));
    CHANGED(1, (void)snprintf(r->device.info.architecture, 9, "sm_80"));
    CHANGED(1, r->device.info.vendor_id++);
    CHANGED(1, r->device.info.device_id++);
    CHANGED(1, r->device.info.features ^= 1);
    CHANGED(1, r->launch.count = 2);
    CHANGED(1, (r->kernel.alignments[0] = 16, a->address = 0x10010));
    CHANGED(1, r->params[0].access = DDISP_ACCESS_INOUT);
}

/* Without boundaries between fields, ("ab", "c") and ("a", "bc") would be one. */
static void fields_delimit_themselves(void **unused)
{
    (void)unused;
    struct request *one = frozen_b(), *other = frozen_b();
    (void)snprintf(one->device.info.backend, 9, "ab");
    (void)snprintf(one->device.info.architecture, 9, "c");
    (void)snprintf(other->device.info.backend, 9, "a");
    (void)snprintf(other->device.info.architecture, 9, "bc");
    assert_false(equal(hash_of(one), hash_of(other)));
}

static void label_is_for_people(void **unused)
{
    char text[256], cut[12];
    (void)unused;
    struct request *r = frozen_b();
    char name[] = "mul";
    r->kernel.name = name;
    ddisp__signature_write(&r->launch);
    ddisp__signature_label(&r->launch, text, sizeof text);
    char expected[256];
    (void)snprintf(expected, sizeof expected,
                   "mul backward cuda:sm_90 a:f32[1] grad, b:f32[1] frozen, y:f32[1] upstream "
                   "#%016llx",
                   (unsigned long long)vectors[2].hash_high);
    assert_string_equal(text, expected);
    ddisp__signature_label(&r->launch, cut, sizeof cut);
    assert_string_equal(cut, "mul backwar");
    free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_vectors),
        cmocka_unit_test(addresses_extents_and_names_are_no_part),
        cmocka_unit_test(everything_that_changes_code_or_backing_is_part),
        cmocka_unit_test(fields_delimit_themselves),
        cmocka_unit_test(label_is_for_people),
    };
    return cmocka_run_group_tests_name("signature", tests, NULL, NULL);
}
