/*
 * backend_chain.h - reading the structs by which an application hands its own objects to a backend.
 * The core cannot read them, so their heads are checked here. Included by each backend's own files.
 */
#ifndef DDISP_BACKEND_CHAIN_H
#define DDISP_BACKEND_CHAIN_H

#include "backend_support.h"

#include <string.h>

/** Largest struct that is taken, as everywhere in the API. */
#define BACKEND_CHAIN_LIMIT 4096u

/** Checks the head and the tail of a struct that has `size` bytes here; name is for the message. */
static inline ddisp_status backend_chain_check(const ddisp_backend_services *services,
                                               const ddisp_chain *chain, uint32_t type,
                                               const char *name, uint32_t size)
{
    if (chain->type != type) {
        return backend_fail(services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                            "a struct of type 0x%x was handed over, a %s (type 0x%x) is wanted",
                            chain->type, name, type);
    }
    if (chain->size < size || chain->size > BACKEND_CHAIN_LIMIT) {
        return backend_fail(services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                            "%s.head.size is %u, %u to %u is taken; set it to the sizeof of the "
                            "struct",
                            name, chain->size, size, BACKEND_CHAIN_LIMIT);
    }
    for (uint32_t i = size; i < chain->size; i++) {
        if (((const unsigned char *)chain)[i] != 0) {
            return backend_fail(services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                                "%s: byte %u is set, but only the first %u bytes of this struct "
                                "are known here; the program was built for a newer library",
                                name, i, size);
        }
    }
    if (chain->next) {
        return backend_fail(services, DDISP_STATUS_INVALID_ARGUMENT, 0,
                            "%s.head.next is not NULL; nothing can be chained to it", name);
    }
    return DDISP_STATUS_OK;
}

/** The same, and copies the struct. */
static inline ddisp_status backend_chain_read(const ddisp_backend_services *services,
                                              const ddisp_chain *chain, uint32_t type,
                                              const char *name, void *out, uint32_t size)
{
    ddisp_status status = backend_chain_check(services, chain, type, name, size);
    if (status == DDISP_STATUS_OK) {
        memcpy(out, chain, size);
    }
    return status;
}

#endif
