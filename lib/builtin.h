/*
 * builtin.h - backends that are linked into the core (static builds).
 *
 * A build that defines DDISP_BUILTIN_BACKENDS adds one generated file with this table, ended by an
 * entry whose name is NULL:
 *
 *     #include "builtin.h"
 *     extern ddisp_status ddisp_host_backend_query(uint32_t, const ddisp_backend_services *,
 *                                                  const ddisp_backend_table **);
 *     const ddisp__builtin_backend ddisp__builtin_backends[] = {
 *         {"host", ddisp_host_backend_query}, {NULL, NULL}};
 */
#ifndef DDISP_LIB_BUILTIN_H
#define DDISP_LIB_BUILTIN_H

#include <diffdispatch/backend.h>

typedef struct ddisp__builtin_backend {
    const char *name;
    ddisp_backend_query_function query;
} ddisp__builtin_backend;

extern const ddisp__builtin_backend ddisp__builtin_backends[];

#endif
