/*
 * check.h - what every unit test of the core includes: cmocka, and checks of statuses and messages.
 */
#ifndef DDISP_TESTS_CHECK_H
#define DDISP_TESTS_CHECK_H

#include <diffdispatch/diffdispatch.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/** Fails with the library's message unless the call succeeded. */
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        ddisp_status assert_ok_status = (call);                                                    \
        if (assert_ok_status != DDISP_STATUS_OK) {                                                 \
            char assert_ok_message[512];                                                           \
            (void)ddisp_last_error(assert_ok_message, sizeof assert_ok_message, NULL);             \
            fail_msg("%s: %s: %s", #call, ddisp_status_name(assert_ok_status), assert_ok_message); \
        }                                                                                          \
    } while (0)

/** The call fails with this status and leaves a message with this status that contains text. */
#define assert_fails(expected, text, call)                                                         \
    do {                                                                                           \
        assert_string_equal(ddisp_status_name(call), ddisp_status_name(expected));                 \
        assert_error_says(text);                                                                   \
    } while (0)

/** This thread's last message contains text. */
#define assert_error_says(text)                                                                    \
    do {                                                                                           \
        char assert_error_message[512];                                                            \
        (void)ddisp_last_error(assert_error_message, sizeof assert_error_message, NULL);           \
        if (!strstr(assert_error_message, (text)))                                                 \
            fail_msg("'%s' is not in the message: %s", (text), assert_error_message);              \
    } while (0)

#endif
