/*
 * replay.c - runs a fuzz target over the files of its corpus, and over each with a few changes that
 * are the same in every run: where libFuzzer is not at hand, and in the tests. Prints results in
 * the Test Anything Protocol; a property that does not hold ends the process.
 */
#define _GNU_SOURCE /* scandir */

#include "fuzz.h"

#include <dirent.h>

#define LARGEST 65536u

static int is_input(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void change(uint8_t *bytes, size_t *size, uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    uint32_t r = *seed >> 8;
    size_t at = *size ? r % *size : 0;
    switch (r >> 20 & 3) {
    case 0:
        *size = at;
        break;
    case 1:
        bytes[at] ^= (uint8_t)(1u << (r & 7));
        break;
    case 2:
        bytes[at] = (uint8_t)(r >> 3);
        break;
    default:
        memmove(bytes + at, bytes + at / 2, *size - at);
        break;
    }
}

static void replay(const uint8_t *original, size_t size)
{
    static uint8_t bytes[LARGEST];
    uint32_t seed = (uint32_t)size;
    (void)LLVMFuzzerTestOneInput(original, size);
    for (int round = 0; round < 200; round++) {
        size_t changed = size;
        memcpy(bytes, original, size);
        for (int i = 0; i <= round % 4; i++)
            change(bytes, &changed, &seed);
        (void)LLVMFuzzerTestOneInput(bytes, changed);
    }
}

int main(int count, char **values)
{
    static uint8_t bytes[LARGEST];
    struct dirent **files;
    if (count != 2)
        return 2;
    int found = scandir(values[1], &files, is_input, alphasort);
    printf("1..%d\n", found > 0 ? found : 1);
    if (found <= 0) {
        printf("not ok 1 - no corpus in %s\n", values[1]);
        return 1;
    }
    for (int i = 0; i < found; i++) {
        char path[1024];
        (void)snprintf(path, sizeof path, "%s/%s", values[1], files[i]->d_name);
        FILE *file = fopen(path, "rbe");
        if (!file)
            return 2;
        size_t size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        replay(bytes, size);
        printf("ok %d - %s\n", i + 1, files[i]->d_name);
        free(files[i]);
    }
    free(files);
    return 0;
}
