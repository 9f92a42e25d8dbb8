/*
 * cuda_ptx.c - finds an entry and its switches in PTX text, and turns switches off in a copy.
 *
 * A switch is a whole line of the exact grammar documented in cuda_ptx_token.c, in the body of a
 * function. The same reading decides what is reported and what is rewritten. Rewriting replaces
 * one digit by another, so that nothing moves.
 */
#include "cuda_ptx.h"

#include <string.h>

static bool all_digits(const char *text, uint64_t length)
{
    for (uint64_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
    }
    return length > 0;
}

bool cuda__name_matches(const char *name, uint64_t name_length, const char *asked)
{
    static const char pattern[] = "{mask}";
    const uint64_t pattern_length = sizeof pattern - 1;
    const char *mask = strstr(asked, pattern);
    uint64_t length = strlen(asked);
    if (!mask) {
        return name_length == length && memcmp(name, asked, length) == 0;
    }
    uint64_t before = (uint64_t)(mask - asked), after = length - before - pattern_length;
    return name_length > before + after && memcmp(name, asked, before) == 0 &&
           memcmp(name + name_length - after, mask + pattern_length, after) == 0 &&
           all_digits(name + before, name_length - before - after);
}

cuda__ptx_found cuda__ptx_find(cuda__ptx_reader *reader, const void *bytes, uint64_t size_bytes,
                               const char *name, cuda__ptx_entry *out_entry,
                               uint64_t *out_switch_mask)
{
    bool found = false, here = false, callable = false;
    *out_switch_mask = 0;
    if (!cuda__ptx_open(reader, bytes, size_bytes)) {
        return CUDA__PTX_MALFORMED;
    }
    for (;;) {
        switch (cuda__ptx_next(reader)) {
        case CUDA__PTX_BROKEN:
            return CUDA__PTX_MALFORMED;
        case CUDA__PTX_END:
            return found ? CUDA__PTX_FOUND : CUDA__PTX_MISSING;
        case CUDA__PTX_ENTRY:
            callable = false;
            here =
                !found && cuda__name_matches(reader->entry.name, reader->entry.name_length, name);
            if (here) {
                found = true;
                *out_entry = reader->entry;
            }
            break;
        case CUDA__PTX_FUNCTION:
            here = false;
            callable = true;
            break;
        case CUDA__PTX_SWITCH:
            if (here || callable) {
                *out_switch_mask |= UINT64_C(1) << reader->switch_index;
            }
            break;
        }
    }
}

bool cuda__ptx_swaps(const void *bytes, uint64_t size_bytes)
{
    cuda__ptx_reader reader;
    bool more = cuda__ptx_open(&reader, bytes, size_bytes);
    while (more && !reader.swaps) {
        cuda__ptx_event event = cuda__ptx_next(&reader);
        more = event != CUDA__PTX_END && event != CUDA__PTX_BROKEN;
    }
    return reader.swaps;
}

bool cuda__ptx_rewrite(const void *bytes, uint64_t size_bytes, uint64_t off_mask, char *copy)
{
    cuda__ptx_reader reader;
    memcpy(copy, bytes, size_bytes);
    copy[size_bytes] = '\0';
    if (!cuda__ptx_open(&reader, bytes, size_bytes)) {
        return false;
    }
    for (;;) {
        switch (cuda__ptx_next(&reader)) {
        case CUDA__PTX_BROKEN:
            return false;
        case CUDA__PTX_END:
            return true;
        case CUDA__PTX_SWITCH:
            if (off_mask >> reader.switch_index & 1) {
                copy[reader.switch_offset] = '0';
            }
            break;
        case CUDA__PTX_ENTRY:
        case CUDA__PTX_FUNCTION:
            break;
        }
    }
}
