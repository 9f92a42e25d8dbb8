/*
 * bytes.c - writes numbers, texts and blocks into one growing run of bytes. Nothing of the
 * machine's own (padding, pointers, byte order) gets in. A failed allocation is remembered and
 * stops all further writing.
 */
#include "bytes.h"

#include <string.h>

static bool reserve(ddisp__bytes *bytes, uint64_t more)
{
    if (bytes->failed || more > PTRDIFF_MAX - bytes->size) {
        bytes->failed = true;
        return false;
    }
    if (bytes->size + more <= bytes->capacity)
        return true;
    uint64_t capacity = bytes->capacity ? bytes->capacity * 2 : 256;
    while (capacity < bytes->size + more)
        capacity *= 2;
    uint8_t *data = ddisp__allocate(bytes->context, capacity);
    if (!data) {
        bytes->failed = true;
        return false;
    }
    if (bytes->size)
        memcpy(data, bytes->data, bytes->size);
    ddisp__release(bytes->context, bytes->data);
    bytes->data = data;
    bytes->capacity = capacity;
    return true;
}

void ddisp__bytes_put(ddisp__bytes *bytes, const void *data, uint64_t size_bytes)
{
    if (size_bytes == 0 || !reserve(bytes, size_bytes))
        return;
    memcpy(bytes->data + bytes->size, data, size_bytes);
    bytes->size += size_bytes;
}

void ddisp__bytes_number(ddisp__bytes *bytes, uint64_t number, uint32_t width)
{
    uint8_t little[8];
    for (uint32_t i = 0; i < 8; i++)
        little[i] = (uint8_t)(number >> (8 * i));
    ddisp__bytes_put(bytes, little, width);
}

void ddisp__bytes_text(ddisp__bytes *bytes, const char *text)
{
    uint64_t length = strlen(text);
    ddisp__bytes_number(bytes, length, 4);
    ddisp__bytes_put(bytes, text, length);
}

void ddisp__bytes_clear(ddisp__bytes *bytes)
{
    ddisp__release(bytes->context, bytes->data);
    bytes->data = NULL;
    bytes->size = bytes->capacity = 0;
    bytes->failed = false;
}
