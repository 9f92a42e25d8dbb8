/*
 * broken.c - plugins that do not fit, one per way of not fitting. Compiled several times:
 *   BROKEN_NAME    the <name> of the file
 *   BROKEN_<WAY>   what is wrong with it
 * The functions behind the table are never called, except open and device_count.
 */
#include <diffdispatch/backend.h>

#include <stdlib.h>

#define JOIN_(a, b, c) a##b##c
#define JOIN(a, b, c)  JOIN_(a, b, c)
#define TEXT_(x)       #x
#define TEXT(x)        TEXT_(x)
#define QUERY          JOIN(ddisp_, BROKEN_NAME, _backend_query)

#ifdef BROKEN_SYMBOL
#undef QUERY
#define QUERY ddisp_something_else
#endif

static void never(void)
{
    abort();
}

static ddisp_status broken_open(const ddisp_backend_services *services, void **out_instance)
{
#ifdef BROKEN_OPEN
    (void)out_instance;
    return services->fail(services->self, DDISP_STATUS_BACKEND_UNAVAILABLE, 34,
                          "libbroken.so.1 is a stub library: no driver is installed");
#elif defined BROKEN_OPEN_SILENT
    (void)services;
    (void)out_instance;
    return DDISP_STATUS_BACKEND_UNAVAILABLE;
#else
    static char nothing;
    (void)services;
    *out_instance = &nothing;
    return DDISP_STATUS_OK;
#endif
}

static void broken_close(void *instance)
{
    (void)instance;
}

static ddisp_status broken_count(void *instance, uint32_t *out_count)
{
    (void)instance;
    *out_count = 0;
    return DDISP_STATUS_OK;
}

/* Every function of the table, so that a core that lets a broken one through is found out. */
static ddisp_backend_table table = {
#ifdef BROKEN_SIZE
    .size = DDISP_BACKEND_TABLE_SIZE_0_1 - 8,
#else
    .size = sizeof(ddisp_backend_table),
#endif
#if defined BROKEN_MAJOR
    .abi = ((DDISP_BACKEND_ABI_MAJOR + 1) << 16) | DDISP_BACKEND_ABI_MINOR,
#elif defined BROKEN_MINOR
    .abi = DDISP_BACKEND_ABI + 1,
#else
    .abi = DDISP_BACKEND_ABI,
#endif
#ifdef BROKEN_OTHER_NAME
    .name = "somebody",
#else
    .name = TEXT(BROKEN_NAME),
#endif
    .version = "0.0.1",
    .open = broken_open,
    .close = broken_close,
    .device_count = broken_count,
};

extern __attribute__((visibility("default"))) ddisp_status
QUERY(uint32_t core_abi, const ddisp_backend_services *services,
      const ddisp_backend_table **out_table);

ddisp_status QUERY(uint32_t core_abi, const ddisp_backend_services *services,
                   const ddisp_backend_table **out_table)
{
    (void)core_abi;
    void (**functions)(void) = (void (**)(void))(void *)&table.device_describe;
    void (**end)(void) = (void (**)(void))(void *)(&table + 1);
    for (; functions < end; functions++)
        *functions = never;
#ifdef BROKEN_FUNCTION
    table.stream_query = NULL;
#endif
    *out_table = &table;
#ifdef BROKEN_QUERY
    return services->fail(services->self, DDISP_STATUS_INCOMPATIBLE, 0,
                          "this plugin wants plugin ABI 9.9");
#else
    (void)services;
    return DDISP_STATUS_OK;
#endif
}
