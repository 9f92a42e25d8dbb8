/*
 * test_status.c - errors of a thread, callers' structs of other versions, texts into callers'
 * buffers.
 */
#include "check.h"

#include "status.h"

#include <pthread.h>
#include <string.h>

static void every_status_has_its_name_and_a_sentence(void **state)
{
    (void)state;
    assert_string_equal(ddisp_status_name(0), "DDISP_STATUS_OK");
    assert_string_equal(ddisp_status_name(6), "DDISP_STATUS_NO_GRADIENT");
    assert_string_equal(ddisp_status_name(29), "DDISP_STATUS_INTERNAL");
    for (ddisp_status status = 0; status <= DDISP_STATUS_BOUND_EXCEEDED; status++) {
        assert_non_null(strstr(ddisp_status_name(status), "DDISP_STATUS_"));
        size_t length = strlen(ddisp_status_describe(status));
        assert_in_range(length, 10, 120);
        assert_int_equal(ddisp_status_describe(status)[length - 1], '.');
    }
    assert_string_equal(ddisp_status_name(DDISP_STATUS_BOUND_EXCEEDED + 1), "unknown status");
    assert_string_equal(ddisp_status_name(0xFFFFFFFFu), "unknown status");
    assert_true(strlen(ddisp_status_describe(0xFFFFFFFFu)) > 0);
}

static void version_is_that_of_the_headers(void **state)
{
    (void)state;
    assert_int_equal(ddisp_version(), 1000);
    assert_string_equal(ddisp_version_string(), "0.1.0");
}

static void failure_is_recorded_whole(void **state)
{
    (void)state;
    ddisp_error error = DDISP_ZERO;
    error.size = sizeof error;
    assert_int_equal(ddisp__fail_argument(DDISP_STATUS_RANK_MISMATCH, 3, "rank %d", 7),
                     DDISP_STATUS_RANK_MISMATCH);
    assert_ok(ddisp_last_error_detail(&error));
    assert_int_equal(error.size, sizeof error);
    assert_int_equal(error.status, DDISP_STATUS_RANK_MISMATCH);
    assert_int_equal(error.argument, 3);
    assert_int_equal(error.native_code, 0);
    assert_string_equal(error.message, "rank 7");

    assert_int_equal(ddisp__fail_native(DDISP_STATUS_DRIVER_ERROR, -700, "100% of it"),
                     DDISP_STATUS_DRIVER_ERROR);
    assert_ok(ddisp_last_error_detail(&error));
    assert_int_equal(error.argument, -1);
    assert_int_equal(error.native_code, -700);
    assert_string_equal(error.message, "100% of it");
}

static void message_may_quote_the_message_before(void **state)
{
    (void)state;
    ddisp__fail(DDISP_STATUS_INTERNAL, "inner");
    ddisp__fail(DDISP_STATUS_INTERNAL, "outer: %s", ddisp__error()->message);
    assert_string_equal(ddisp__error()->message, "outer: inner");
}

static void long_message_is_cut_between_characters(void **state)
{
    (void)state;
    char text[700];
    /* 486 letters, then characters of two bytes: the first would end past byte 487. */
    memset(text, 'a', 486);
    for (int i = 0; i < 100; i++)
        memcpy(text + 486 + 2 * i, "\xC3\xA4", 3);
    ddisp__fail(DDISP_STATUS_INTERNAL, "%s", text);
    assert_int_equal(strlen(ddisp__error()->message), 486);
}

static void last_error_is_copied_and_cut(void **state)
{
    (void)state;
    char buffer[6] = "xxxxx";
    uint64_t length = 0;
    ddisp__fail(DDISP_STATUS_INTERNAL, "abcdefgh");
    assert_ok(ddisp_last_error(buffer, sizeof buffer, &length));
    assert_string_equal(buffer, "abcde");
    assert_int_equal(length, 8);
    assert_ok(ddisp_last_error(NULL, 0, &length));
    assert_ok(ddisp_last_error(buffer, 1, NULL));
    assert_string_equal(buffer, "");
    assert_int_equal(ddisp_last_error(NULL, 4, &length), DDISP_STATUS_INVALID_ARGUMENT);
    assert_error_says("capacity is 4");
}

static void *read_error(void *result)
{
    *(ddisp_error *)result = *ddisp__error();
    return NULL;
}

static void each_thread_has_its_own_error(void **state)
{
    (void)state;
    ddisp_error other;
    pthread_t thread;
    ddisp__fail(DDISP_STATUS_INTERNAL, "mine");
    assert_int_equal(pthread_create(&thread, NULL, read_error, &other), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(other.status, DDISP_STATUS_OK);
    assert_int_equal(other.argument, -1);
    assert_string_equal(other.message, "");
    assert_string_equal(ddisp__error()->message, "mine");
}

/* A struct as this library knows it; the first version ended before c. */
struct known {
    uint32_t size, a;
    uint64_t b, c;
};
#define FIRST_SIZE 16u

static void struct_of_the_first_version_reads_as_zero_behind(void **state)
{
    (void)state;
    /* Exactly the bytes of the first version, so that a sanitizer sees any byte read behind. */
    uint32_t *caller = test_malloc(FIRST_SIZE);
    struct known out;
    memset(caller, 0, FIRST_SIZE);
    memset(&out, 0xAA, sizeof out);
    caller[0] = FIRST_SIZE;
    caller[1] = 5;
    assert_ok(ddisp__struct_read("desc", caller, FIRST_SIZE, sizeof out, &out));
    assert_int_equal(out.a, 5);
    assert_int_equal(out.b, 0);
    assert_int_equal(out.c, 0);
    test_free(caller);
}

static void larger_struct_is_taken_when_its_tail_is_zero(void **state)
{
    (void)state;
    unsigned char caller[sizeof(struct known) + 40] = {0};
    struct known value = {.size = sizeof caller, .a = 1, .b = 2, .c = 3}, out;
    memcpy(caller, &value, sizeof value);
    assert_ok(ddisp__struct_read("desc", caller, FIRST_SIZE, sizeof out, &out));
    assert_int_equal(out.c, 3);

    caller[sizeof caller - 1] = 1;
    assert_int_equal(ddisp__struct_read("desc", caller, FIRST_SIZE, sizeof out, &out),
                     DDISP_STATUS_INVALID_ARGUMENT);
    assert_error_says("desc: byte 63 is set");
    assert_error_says("first 24 bytes");
}

static void wrong_sizes_are_refused_by_name_and_number(void **state)
{
    (void)state;
    struct known caller = {.size = 15}, out;
    assert_int_equal(ddisp__struct_read("options", &caller, FIRST_SIZE, sizeof out, &out),
                     DDISP_STATUS_INVALID_ARGUMENT);
    assert_error_says("options.size is 15");
    assert_error_says("16 to 4096");
    caller.size = 4097;
    assert_int_equal(ddisp__struct_read("options", &caller, FIRST_SIZE, sizeof out, &out),
                     DDISP_STATUS_INVALID_ARGUMENT);
    assert_error_says("options.size is 4097");
    assert_int_equal(ddisp__struct_read("options", NULL, FIRST_SIZE, sizeof out, &out),
                     DDISP_STATUS_INVALID_ARGUMENT);
    assert_error_says("options is NULL");
}

static void out_struct_gets_only_the_bytes_it_has(void **state)
{
    (void)state;
    struct known value = {.size = sizeof value, .a = 1, .b = 2, .c = 3};
    uint32_t *caller = test_malloc(FIRST_SIZE);
    memset(caller, 0, FIRST_SIZE);
    caller[0] = FIRST_SIZE;
    assert_ok(ddisp__struct_write("out", caller, FIRST_SIZE, sizeof value, &value));
    assert_int_equal(caller[0], FIRST_SIZE); /* still the caller's */
    assert_int_equal(caller[1], 1);
    assert_memory_equal(caller + 2, &value.b, 8);
    test_free(caller);
}

static void text_says_how_long_it_is(void **state)
{
    (void)state;
    char buffer[8];
    uint64_t length = 0;
    assert_ok(ddisp__text_write("1234567", buffer, 8, &length));
    assert_string_equal(buffer, "1234567");
    assert_int_equal(length, 7);
    assert_int_equal(ddisp__text_write("12345678", buffer, 8, &length),
                     DDISP_STATUS_BUFFER_TOO_SMALL);
    assert_string_equal(buffer, "1234567");
    assert_int_equal(length, 8);
    assert_int_equal(ddisp__text_write("12", NULL, 0, &length), DDISP_STATUS_BUFFER_TOO_SMALL);
    assert_int_equal(length, 2);
    assert_int_equal(ddisp__text_write("12", NULL, 3, NULL), DDISP_STATUS_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_its_name_and_a_sentence),
        cmocka_unit_test(version_is_that_of_the_headers),
        cmocka_unit_test(failure_is_recorded_whole),
        cmocka_unit_test(message_may_quote_the_message_before),
        cmocka_unit_test(long_message_is_cut_between_characters),
        cmocka_unit_test(last_error_is_copied_and_cut),
        cmocka_unit_test(each_thread_has_its_own_error),
        cmocka_unit_test(struct_of_the_first_version_reads_as_zero_behind),
        cmocka_unit_test(larger_struct_is_taken_when_its_tail_is_zero),
        cmocka_unit_test(wrong_sizes_are_refused_by_name_and_number),
        cmocka_unit_test(out_struct_gets_only_the_bytes_it_has),
        cmocka_unit_test(text_says_how_long_it_is),
    };
    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
