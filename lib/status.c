/*
 * status.c - how every call of the library fails: a status, and this thread's last error.
 *
 * In come a status and a message, out go the same status and a record that ddisp_last_error reads
 * later. Here too: reading and writing of callers' structs that may be older or newer than the
 * library, and copying of text into callers' buffers. A success never touches the record, nothing
 * here allocates, and the record has no destructor, so that it is safe in threads that outlive
 * main.
 */
#include "status.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LARGEST_STRUCT 4096u

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
#define VERSION_TEXT                                                                               \
    TEXT(DDISP_VERSION_MAJOR) "." TEXT(DDISP_VERSION_MINOR) "." TEXT(DDISP_VERSION_PATCH)

static _Thread_local ddisp_error last = {
    .size = sizeof(ddisp_error), .status = DDISP_STATUS_OK, .argument = -1};

static const struct {
    const char *name;
    const char *sentence;
} statuses[] = {
#define ENTRY(name, sentence) [DDISP_STATUS_##name] = {"DDISP_STATUS_" #name, sentence}
    ENTRY(OK, "The call did what it was asked to."),
    ENTRY(INVALID_ARGUMENT,
          "An argument is NULL, of a wrong size, an unknown value, or inconsistent."),
    ENTRY(OUT_OF_MEMORY, "The host allocator returned no memory."),
    ENTRY(OUT_OF_DEVICE_MEMORY, "The device has no such amount of memory left."),
    ENTRY(UNSUPPORTED, "The device, the code or the library cannot do this."),
    ENTRY(NOT_FOUND, "There is no such device, backend, entry or file."),
    ENTRY(NO_GRADIENT, "The tensor does not require a gradient."),
    ENTRY(MISSING_GRADIENT,
          "An output has no upstream gradient, or the gradient of an input may not be made."),
    ENTRY(GRADIENT_REJECTED, "Policy reject met an input that does not require a gradient."),
    ENTRY(ALIASED, "A range that the launch writes overlaps another range of the launch."),
    ENTRY(DTYPE_MISMATCH, "The element type is not the declared one."),
    ENTRY(RANK_MISMATCH, "The number of dimensions is not the declared one."),
    ENTRY(SHAPE_MISMATCH, "The extents are not the required ones."),
    ENTRY(LAYOUT_MISMATCH, "The code does not accept these strides."),
    ENTRY(DEVICE_MISMATCH, "An object belongs to another device or context."),
    ENTRY(OVERFLOW, "A product of extents does not fit in 64 bits."),
    ENTRY(LIMIT_EXCEEDED, "A limit of the device would be exceeded."),
    ENTRY(CODE_INVALID, "The code is truncated, malformed or lacks what was declared."),
    ENTRY(CODE_REJECTED, "The driver or compiler refused the code."),
    ENTRY(NO_CODE, "No code of the kernel fits this device, mode and policy."),
    ENTRY(DEVICE_LOST, "The device was lost; every later call that needs it fails."),
    ENTRY(DRIVER_ERROR, "The driver failed."),
    ENTRY(TIMEOUT, "The wait ended before the work did."),
    ENTRY(NOT_READY, "The work has not completed yet."),
    ENTRY(BACKEND_UNAVAILABLE, "The backend cannot work here: no driver or no device."),
    ENTRY(INCOMPATIBLE, "Plugin and library, or caller and library, differ in ABI version."),
    ENTRY(FORKED, "The process was forked after the context was created."),
    ENTRY(READ_ONLY, "A read-only tensor would have been written."),
    ENTRY(BUFFER_TOO_SMALL, "The caller's buffer is too small."),
    ENTRY(INTERNAL, "The library has a fault: please report it."),
    ENTRY(BOUND_EXCEEDED,
          "Deterministic mode met a value that is not finite or beyond the declared bound."),
#undef ENTRY
};

#define STATUS_COUNT (sizeof statuses / sizeof statuses[0])

const char *ddisp_status_name(ddisp_status status)
{
    return status < STATUS_COUNT ? statuses[status].name : "unknown status";
}

const char *ddisp_status_describe(ddisp_status status)
{
    return status < STATUS_COUNT ? statuses[status].sentence
                                 : "This version of the library does not know this status.";
}

uint32_t ddisp_version(void)
{
    return DDISP_VERSION_MAJOR * 1000000u + DDISP_VERSION_MINOR * 1000u + DDISP_VERSION_PATCH;
}

const char *ddisp_version_string(void)
{
    return VERSION_TEXT;
}

/* Copies text, cut at a character (not inside a UTF-8 sequence) and terminated. capacity > 0. */
static void copy_cut(char *buffer, uint64_t capacity, const char *text, uint64_t length)
{
    if (length >= capacity) {
        length = capacity - 1;
        while (length > 0 && ((unsigned char)text[length] & 0xC0u) == 0x80u)
            length--;
    }
    memcpy(buffer, text, length);
    buffer[length] = '\0';
}

static void record(ddisp_status status, int32_t argument, int64_t native_code, const char *message)
{
    ddisp_error error = {.size = sizeof(ddisp_error),
                         .status = status,
                         .argument = argument,
                         .native_code = native_code};
    copy_cut(error.message, sizeof error.message, message, strlen(message));
    last = error;
}

/* The message is put together aside, since its arguments may point into the present record. */
static void record_format(ddisp_status status, int32_t argument, const char *format, va_list values)
    __attribute__((format(printf, 3, 0)));
static void record_format(ddisp_status status, int32_t argument, const char *format, va_list values)
{
    char message[1024];
    if (vsnprintf(message, sizeof message, format, values) < 0)
        message[0] = '\0';
    record(status, argument, 0, message);
}

ddisp_status ddisp__fail(ddisp_status status, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    record_format(status, -1, format, values);
    va_end(values);
    return status;
}

ddisp_status ddisp__fail_argument(ddisp_status status, int32_t argument, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    record_format(status, argument, format, values);
    va_end(values);
    return status;
}

ddisp_status ddisp__fail_native(ddisp_status status, int64_t native_code, const char *message)
{
    record(status, -1, native_code, message ? message : "");
    return status;
}

const ddisp_error *ddisp__error(void)
{
    return &last;
}

void ddisp__error_restore(const ddisp_error *error)
{
    if (error != &last)
        last = *error;
}

ddisp_status ddisp_last_error(char *buffer, uint64_t capacity, uint64_t *out_length)
{
    if (!buffer && capacity != 0)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "buffer is NULL, but capacity is %llu; pass capacity 0 to ask for the "
                           "length only",
                           (unsigned long long)capacity);

    uint64_t length = strlen(last.message);
    if (capacity != 0)
        copy_cut(buffer, capacity, last.message, length);
    if (out_length)
        *out_length = length;
    return DDISP_STATUS_OK;
}

ddisp_status ddisp_last_error_detail(ddisp_error *out_error)
{
    return ddisp__struct_write("out_error", out_error, sizeof(ddisp_error), sizeof(ddisp_error),
                               &last);
}

/* Checks the head and the tail of a caller's struct. */
static ddisp_status check_struct(const char *name, const void *caller, uint32_t first_size,
                                 uint32_t known_size, uint32_t *out_size)
{
    if (!caller)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT, "%s is NULL", name);

    uint32_t size;
    memcpy(&size, caller, sizeof size);
    if (size < first_size || size > LARGEST_STRUCT)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "%s.size is %u, library %s takes %u to %u; set it to the sizeof of the "
                           "struct",
                           name, size, VERSION_TEXT, first_size, LARGEST_STRUCT);

    const unsigned char *bytes = caller;
    for (uint32_t i = known_size; i < size; i++) {
        if (bytes[i] != 0)
            return ddisp__fail(
                DDISP_STATUS_INVALID_ARGUMENT,
                "%s: byte %u is set, but library %s knows only the first %u bytes of "
                "this struct; the program was built for a newer library",
                name, i, VERSION_TEXT, known_size);
    }
    *out_size = size;
    return DDISP_STATUS_OK;
}

ddisp_status ddisp__struct_read(const char *name, const void *caller, uint32_t first_size,
                                uint32_t known_size, void *out)
{
    uint32_t size = 0;
    ddisp_status status = check_struct(name, caller, first_size, known_size, &size);
    if (status != DDISP_STATUS_OK)
        return status;

    memset(out, 0, known_size);
    memcpy(out, caller, size < known_size ? size : known_size);
    return DDISP_STATUS_OK;
}

ddisp_status ddisp__struct_write(const char *name, void *caller, uint32_t first_size,
                                 uint32_t known_size, const void *value)
{
    uint32_t size = 0;
    ddisp_status status = check_struct(name, caller, first_size, known_size, &size);
    if (status != DDISP_STATUS_OK)
        return status;

    /* The size field stays the caller's. */
    uint32_t head = (uint32_t)sizeof size;
    memcpy((unsigned char *)caller + head, (const unsigned char *)value + head,
           (size < known_size ? size : known_size) - head);
    return DDISP_STATUS_OK;
}

ddisp_status ddisp__text_write(const char *text, char *buffer, uint64_t capacity,
                               uint64_t *out_length)
{
    if (!buffer && capacity != 0)
        return ddisp__fail(DDISP_STATUS_INVALID_ARGUMENT,
                           "buffer is NULL, but capacity is %llu; pass capacity 0 to ask for the "
                           "length only",
                           (unsigned long long)capacity);

    uint64_t length = strlen(text);
    if (out_length)
        *out_length = length;
    if (capacity != 0)
        copy_cut(buffer, capacity, text, length);
    if (length >= capacity)
        return ddisp__fail(DDISP_STATUS_BUFFER_TOO_SMALL,
                           "buffer has %llu bytes, the text needs %llu",
                           (unsigned long long)capacity, (unsigned long long)length + 1);
    return DDISP_STATUS_OK;
}
