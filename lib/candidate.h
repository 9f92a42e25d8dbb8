/*
 * candidate.h - between loader.c, which knows the places, and candidate.c, which knows the rules.
 */
#ifndef DDISP_LIB_CANDIDATE_H
#define DDISP_LIB_CANDIDATE_H

#include "objects.h"

#define DDISP__PATH_CAPACITY 4096

/** One run of the loader. */
struct ddisp__search {
    ddisp_context *context;
    const char *wanted;        /* comma-separated names, NULL for all */
    const char *wanted_source; /* who said so */
    const char *directory;     /* that is being listed */
    bool out_of_memory;
};

/** Next name of a comma-separated list, without blanks around it. False at the end. */
bool ddisp__candidate_next_name(const char **cursor, const char **out_name, uint64_t *out_length);
/** The candidate of this name whose table is in use, or NULL. */
const ddisp__backend *ddisp__candidate_loaded(ddisp_context *context, const char *name);
/** A new entry, or NULL when out of memory (noted in search). Pointers to entries move. */
ddisp__backend *ddisp__candidate_add(struct ddisp__search *search, const char *name,
                                     uint64_t name_length, const char *path);
/** Notes in the entry and in the log why it is not used. */
void ddisp__candidate_refuse(struct ddisp__search *search, ddisp__backend *backend,
                             ddisp_log_level level, ddisp_status status, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/** A new entry that is to be opened; NULL when it is not wanted or not needed. */
ddisp__backend *ddisp__candidate_consider(struct ddisp__search *search, const char *name,
                                          const char *path);
/** Shakes hands and opens the driver. */
void ddisp__candidate_open(struct ddisp__search *search, ddisp__backend *backend,
                           ddisp_backend_query_function query);
/** Tries a file of search->directory, if its name is that of a plugin. user is the search. */
void ddisp__candidate_file(void *user, const char *file);

#endif
