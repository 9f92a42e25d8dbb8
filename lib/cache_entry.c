/*
 * cache_entry.c - one entry of the kernel cache as bytes: head, key, payload. What comes from disk
 * may be anything; an entry counts only when version, lengths, checksum and the whole key are
 * right. No file is touched here.
 *
 *   8 bytes  "DDISPKC" and a NUL      8  length of the key
 *   4        version                  8  length of the payload
 *   4        zero                    16  checksum of all the rest
 */
#include "cache_file.h"

#include <stdio.h>
#include <string.h>

#define VERSION 1u

static const char magic[8] = "DDISPKC";

/* XXH3-128 of the head before it and the hashes of key and payload. */
static void checksum(const uint8_t *head, const void *key, uint64_t key_size, const void *payload,
                     uint64_t payload_size, uint8_t out[16])
{
    uint8_t all[64];
    ddisp__hash part = ddisp__hash_bytes(key, key_size);
    memcpy(all, head, 32);
    memcpy(all + 32, &part, 16);
    part = ddisp__hash_bytes(payload, payload_size);
    memcpy(all + 48, &part, 16);
    part = ddisp__hash_bytes(all, sizeof all);
    memcpy(out, &part, 16);
}

void ddisp__cache_head(const void *key, uint64_t key_size, const void *payload,
                       uint64_t payload_size, uint8_t head[DDISP__CACHE_HEAD])
{
    const uint32_t version[2] = {VERSION, 0};
    memcpy(head, magic, 8);
    memcpy(head + 8, version, 8);
    memcpy(head + 16, &key_size, 8);
    memcpy(head + 24, &payload_size, 8);
    checksum(head, key, key_size, payload, payload_size, head + 32);
}

bool ddisp__cache_parse(const uint8_t *file, uint64_t size, const void *key, uint64_t key_size,
                        uint64_t *out_offset, uint64_t *out_size, const char **out_why)
{
    uint32_t version[2];
    uint64_t lengths[2];
    uint8_t sum[16];
    *out_why = "it is cut off";
    if (size < DDISP__CACHE_HEAD)
        return false;
    memcpy(version, file + 8, 8);
    memcpy(lengths, file + 16, 16);
    *out_why = "it is no entry of a kernel cache";
    if (memcmp(file, magic, sizeof magic) != 0)
        return false;
    *out_why = "it is of another version";
    if (version[0] != VERSION || version[1] != 0)
        return false;
    *out_why = "its length is wrong";
    uint64_t rest = size - DDISP__CACHE_HEAD;
    if (lengths[0] > rest || lengths[1] != rest - lengths[0])
        return false;
    const uint8_t *its_key = file + DDISP__CACHE_HEAD, *payload = its_key + lengths[0];
    checksum(file, its_key, lengths[0], payload, lengths[1], sum);
    *out_why = "its checksum is wrong";
    if (memcmp(sum, file + 32, sizeof sum) != 0)
        return false;
    *out_why = "it is that of another key";
    if (lengths[0] != key_size || (key_size && memcmp(its_key, key, key_size) != 0))
        return false;
    *out_why = "";
    *out_offset = DDISP__CACHE_HEAD + key_size;
    *out_size = lengths[1];
    return true;
}

void ddisp__cache_name(const void *key, uint64_t key_size, char name[DDISP__CACHE_NAME])
{
    ddisp__hash hash = ddisp__hash_bytes(key, key_size);
    (void)snprintf(name, DDISP__CACHE_NAME, "%016llx%016llx.ddisp", (unsigned long long)hash.high,
                   (unsigned long long)hash.low);
}
