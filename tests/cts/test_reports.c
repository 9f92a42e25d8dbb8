/*
 * test_reports.c - what a launch reports: its summary, one entry per gradient slot, a table a
 * person can read, and a one-line label. Also after failures, as far as known.
 */
#include "cts.h"

struct launch {
    ddisp_kernel *kernel;
    ddisp_report *report;
    ddisp_tensor *a, *b, *y;
};

static struct launch make(cts *t)
{
    struct launch l = {cts_kernel(t, &cts_mul), cts_report(t), CTS_VECTOR(t, CTS_GRAD, 1, 2, 3),
                       CTS_VECTOR(t, 0, 4, 5, 6), CTS_VECTOR(t, CTS_GRAD, 0, 0, 0)};
    CTS_OK(ddisp_tensor_set_grad(l.y, CTS_VECTOR(t, 0, 1, 1, 1)));
    return l;
}

static void backward_report_has_every_slot(cts *t)
{
    struct launch l = make(t);
    ddisp_launch_options options = cts_options(DDISP_POLICY_AUTO, 0, l.report);
    CTS_OK(CTS_BACKWARD(l.kernel, &options, l.a, l.b, l.y));
    ddisp_report_info info = cts_report_info(l.report);
    assert_int_equal(info.status, DDISP_STATUS_OK);
    assert_int_equal(info.mode, DDISP_MODE_BACKWARD);
    assert_int_equal(info.skip, DDISP_SKIP_NONE);
    assert_int_equal(info.launched, 1);
    assert_int_equal(info.variant, DDISP_VARIANT_ORIGIN_BUILT);
    assert_int_equal(info.items, 3);
    assert_int_equal(info.slot_count, 3);
    assert_int_equal(info.extra_bytes, 0);
    assert_string_equal(cts_mul.codes[info.code].backend, t->info.backend);
    ddisp_report_slot a = cts_slot(l.report, 0, true), b = cts_slot(l.report, 1, true);
    ddisp_report_slot y = cts_slot(l.report, 2, false);
    assert_int_equal(a.backing, DDISP_BACKING_REAL);
    assert_int_equal(a.requires_grad, 1);
    assert_int_equal(a.bytes, 12);
    assert_int_equal(a.flags & (DDISP_REPORT_SLOT_MADE | DDISP_REPORT_SLOT_TAKEN),
                     DDISP_REPORT_SLOT_MADE);
    assert_int_equal(b.backing, DDISP_BACKING_OMITTED);
    assert_int_equal(b.requires_grad, 0);
    assert_int_equal(b.policy, DDISP_POLICY_AUTO);
    assert_int_equal(b.bytes, 0);
    assert_true(b.reason[0]);
    assert_int_equal(y.backing, DDISP_BACKING_REAL);
    assert_int_equal(y.flags, DDISP_REPORT_SLOT_TAKEN);
}

static void forward_report_has_no_slot_backed(cts *t)
{
    struct launch l = make(t);
    ddisp_launch_options options = cts_options(DDISP_POLICY_AUTO, 0, l.report);
    CTS_OK(cts_launch(l.kernel, DDISP_MODE_FORWARD, CTS_TENSORS(l.a, l.b, l.y), &options));
    ddisp_report_info info = cts_report_info(l.report);
    assert_int_equal(info.mode, DDISP_MODE_FORWARD);
    assert_int_equal(info.launched, 1);
    assert_int_equal(info.slot_count, 0);
}

static void table_says_what_happened(cts *t)
{
    struct launch l = make(t);
    ddisp_launch_options options = cts_options(DDISP_POLICY_AUTO, 0, l.report);
    char text[4096], cut[20];
    uint64_t length = 0, needed = 0;
    CTS_OK(CTS_BACKWARD(l.kernel, &options, l.a, l.b, l.y));
    CTS_OK(ddisp_report_format(l.report, text, sizeof text, &length));
    assert_int_equal(strlen(text), length);
    const char *const wanted[] = {
        "mul backward on ", t->info.spec,     "f32[3]", "requires grad", "frozen", "real",
        "omitted",          "upstream given", "taken",  "made",          "3 items"};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        CTS_CHECK(strstr(text, wanted[i]), "the table lacks \"%s\":\n%s", wanted[i], text);
    CTS_FAILS(ddisp_report_format(l.report, cut, sizeof cut, &needed),
              DDISP_STATUS_BUFFER_TOO_SMALL, "");
    assert_int_equal(needed, length);
    assert_int_equal(strlen(cut), sizeof cut - 1);
    assert_memory_equal(cut, text, sizeof cut - 1);
    CTS_FAILS(ddisp_report_format(l.report, NULL, 0, &needed), DDISP_STATUS_BUFFER_TOO_SMALL, "");
    assert_int_equal(needed, length);
}

static void label_is_one_line(cts *t)
{
    struct launch l = make(t);
    ddisp_launch_options options = cts_options(DDISP_POLICY_AUTO, 0, l.report);
    char text[1024];
    CTS_OK(CTS_BACKWARD(l.kernel, &options, l.a, l.b, l.y));
    CTS_OK(ddisp_report_get_label(l.report, text, sizeof text, NULL));
    const char *const wanted[] = {"mul backward ",   t->info.backend,     "a:f32[1] grad",
                                  "b:f32[1] frozen", "y:f32[1] upstream", "#"};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        CTS_CHECK(strstr(text, wanted[i]), "the label lacks \"%s\": %s", wanted[i], text);
    assert_null(strchr(text, '\n'));
}

static void failure_is_reported_as_far_as_known(cts *t)
{
    struct launch l = make(t);
    ddisp_launch_options options = cts_options(DDISP_POLICY_REJECT, 0, l.report);
    CTS_FAILS(CTS_BACKWARD(l.kernel, &options, l.a, l.b, l.y), DDISP_STATUS_GRADIENT_REJECTED,
              "'b'");
    ddisp_report_info info = cts_report_info(l.report);
    assert_int_equal(info.status, DDISP_STATUS_GRADIENT_REJECTED);
    assert_int_equal(info.skip, DDISP_SKIP_FAILED);
    assert_int_equal(info.launched, 0);
    options.policy = DDISP_POLICY_AUTO; /* the same report serves the next launch */
    CTS_OK(CTS_BACKWARD(l.kernel, &options, l.a, l.b, l.y));
    assert_int_equal(cts_report_info(l.report).status, DDISP_STATUS_OK);
    assert_int_equal(cts_report_info(l.report).launched, 1);
}

static void scratch_reports_its_bytes(cts *t)
{
    struct launch l = make(t);
    ddisp_launch_options options = cts_options(DDISP_POLICY_SCRATCH, 0, l.report);
    CTS_OK(CTS_BACKWARD(l.kernel, &options, l.a, l.b, l.y));
    assert_int_equal(cts_report_info(l.report).extra_bytes, 12);
    assert_int_equal(cts_slot(l.report, 1, true).bytes, 12);
    char text[4096];
    CTS_OK(ddisp_report_format(l.report, text, sizeof text, NULL));
    CTS_CHECK(strstr(text, "scratch"), "the table lacks \"scratch\":\n%s", text);
}

static void empty_report_has_no_slots(cts *t)
{
    ddisp_report *report = cts_report(t);
    ddisp_report_slot slot = DDISP_ZERO;
    slot.size = (uint32_t)sizeof slot;
    ddisp_report_info info = cts_report_info(report);
    assert_int_equal(info.slot_count, 0);
    assert_int_equal(info.launched, 0);
    CTS_FAILS(ddisp_report_get_slot(report, 0, &slot), DDISP_STATUS_INVALID_ARGUMENT, "index");
}

const cts_test cts_report_tests[] = {
    CTS_TEST(backward_report_has_every_slot),
    CTS_TEST(forward_report_has_no_slot_backed),
    CTS_TEST(table_says_what_happened),
    CTS_TEST(label_is_one_line),
    CTS_TEST(failure_is_reported_as_far_as_known),
    CTS_TEST(scratch_reports_its_bytes),
    CTS_TEST(empty_report_has_no_slots),
    CTS_END,
};
