/*
 * signature_process.c - a process that asks for the signatures of golden.txt: `signature_process
 * GOLDEN STEP OFFSET` takes every STEP-th request from OFFSET on. Uses the locale that the
 * environment says. Prints how many were as expected; ends with status 3 at the first that is not.
 */
#include "requests.h"

#include <locale.h>
#include <stdlib.h>

static struct request requests[MOST_REQUESTS];

int main(int count, char **values)
{
    static ddisp_signature signature;
    if (count != 4)
        return 2;
    (void)setlocale(LC_ALL, "");
    uint32_t all = requests_read(values[1], requests), checked = 0;
    uint32_t step = (uint32_t)strtoul(values[2], NULL, 10);
    for (uint32_t i = (uint32_t)strtoul(values[3], NULL, 10) % step; i < all; i += step) {
        request_signature(&requests[i], &signature);
        if (memcmp(signature.hash, requests[i].hash, 16) != 0 ||
            signature.byte_count != requests[i].byte_count ||
            memcmp(signature.bytes, requests[i].bytes, signature.byte_count) != 0) {
            printf("request %s has another signature\n", requests[i].name);
            return 3;
        }
        checked++;
    }
    printf("%u\n", checked);
    return checked ? 0 : 4;
}
