/*
 * steady.h - the steady path of a launch over a stand-in driver, whose calls are counted.
 * test_steady.c launches; steady_<backend>.c counts.
 */
#ifndef DDISP_TESTS_STEADY_H
#define DDISP_TESTS_STEADY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <diffdispatch/diffdispatch.h>

extern const char *const steady_backend;

/** After the device was opened: what an application has done that uses the driver itself. */
void steady_prepare(void);
/** Forgets what was counted. */
void steady_reset(void);
/** Calls that each of `launches` launches may not make beyond its one; fails the test when it did.
 */
void steady_check(uint64_t launches);

#endif
