/*
 * layout.h - a frozen layout is a table written by hand: field, offset, size. Together the rows of
 * a struct must cover it without a gap, so that there is no implicit padding and no field that is
 * not listed. Rows are appended when a struct grows; a changed row is a broken ABI.
 */
#ifndef TESTS_ABI_LAYOUT_H
#define TESTS_ABI_LAYOUT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

typedef struct row {
    const char *field;
    size_t offset, size;           /* as compiled */
    size_t want_offset, want_size; /* as promised */
} row;

typedef struct layout {
    size_t size, want_size;
    const row *rows;
    size_t count;
} layout;

#define SIZE_OF(type, field) (sizeof(((type *)NULL)->field))
#define ROW(type, field, want_offset, want_size)                                                   \
    {                                                                                              \
        "" #type "." #field, offsetof(type, field), SIZE_OF(type, field), (want_offset),           \
            (want_size)                                                                            \
    }
#define LAYOUT(type, want_size)                                                                    \
    static const layout type##_layout = {sizeof(type), (want_size), type##_rows,                   \
                                         sizeof type##_rows / sizeof type##_rows[0]}
#define TEST(type)                                                                                 \
    {                                                                                              \
        "" #type "_is_frozen", is_frozen, NULL, NULL, (void *)(uintptr_t)&type##_layout            \
    }

static void is_frozen(void **state)
{
    const layout *type = *state;
    size_t end = 0;
    for (size_t i = 0; i < type->count; i++) {
        const row *field = &type->rows[i];
        if (field->offset != field->want_offset || field->size != field->want_size ||
            field->offset != end)
            fail_msg("%s is %zu bytes at %zu, promised are %zu bytes at %zu; the field before ends "
                     "at %zu",
                     field->field, field->size, field->offset, field->want_size, field->want_offset,
                     end);
        end = field->offset + field->size;
    }
    assert_int_equal(type->size, type->want_size);
    assert_int_equal(end, type->size);
}

#endif
