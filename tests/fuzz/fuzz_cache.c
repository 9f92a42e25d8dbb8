/*
 * fuzz_cache.c - entries of the kernel cache from anywhere. The input is a key (its length in the
 * first byte) and what a file holds; and it is made into a good entry, of which any change is
 * refused.
 */
#include "fuzz.h"

#include "cache_file.h"

/* An entry whose key and payload are the input; then one byte of it is changed. */
static void made(const uint8_t *key, size_t key_size, const uint8_t *payload, size_t payload_size)
{
    size_t size = DDISP__CACHE_HEAD + key_size + payload_size;
    uint8_t *file = malloc(size);
    uint64_t offset, length;
    const char *why;
    if (!file)
        return;
    ddisp__cache_head(key, key_size, payload, payload_size, file);
    memcpy(file + DDISP__CACHE_HEAD, key, key_size);
    memcpy(file + DDISP__CACHE_HEAD + key_size, payload, payload_size);
    HOLDS(ddisp__cache_parse(file, size, key, key_size, &offset, &length, &why));
    HOLDS(offset == DDISP__CACHE_HEAD + key_size && length == payload_size);
    HOLDS(memcmp(file + offset, payload, payload_size) == 0);
    size_t at = payload_size ? (payload[0] * 257u + payload[payload_size - 1]) % size : 0;
    file[at] ^= 1;
    HOLDS(!ddisp__cache_parse(file, size, key, key_size, &offset, &length, &why));
    HOLDS(why[0] != '\0');
    file[at] ^= 1;
    HOLDS(!ddisp__cache_parse(file, size - 1, key, key_size, &offset, &length, &why));
    if (key_size)
        HOLDS(!ddisp__cache_parse(file, size, key, key_size - 1, &offset, &length, &why));
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t key_size = data[0] < size ? data[0] : size - 1;
    uint8_t *key = exact_copy(data + 1, key_size);
    uint8_t *file = exact_copy(data + 1 + key_size, size - 1 - key_size);
    size_t file_size = size - 1 - key_size;
    uint64_t offset = 0, length = 0;
    const char *why = NULL;
    char name[DDISP__CACHE_NAME];
    if (ddisp__cache_parse(file, file_size, key, key_size, &offset, &length, &why)) {
        HOLDS(offset + length == file_size && offset == DDISP__CACHE_HEAD + key_size);
        HOLDS(memcmp(file + DDISP__CACHE_HEAD, key, key_size) == 0);
    } else {
        HOLDS(why && why[0]);
    }
    ddisp__cache_name(key, key_size, name);
    HOLDS(strlen(name) == DDISP__CACHE_NAME - 1);
    made(key, key_size, file, file_size);
    free(key);
    free(file);
    return 0;
}
