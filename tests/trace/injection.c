/*
 * injection.c - a tool that reads NVTX ranges, as NVTX_INJECTION64_PATH names one: writes what it
 * is told into the file that RANGES names: a line for each begin and end, with the thread.
 */
#define _GNU_SOURCE /* syscall */
#include <nvtx3/nvToolsExt.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static int file = -1;

static void tell(const char *what, const char *name)
{
    char line[200];
    int length = snprintf(line, sizeof line, "%ld %s %.100s\n", syscall(SYS_gettid), what, name);
    if (write(file, line, (size_t)length) != length)
        abort();
}

static int NVTX_API push(const char *name)
{
    tell("begin", name);
    return 0;
}

static int NVTX_API pop(void)
{
    tell("end", "");
    return 0;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get);

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get)
{
    const NvtxExportTableCallbacks *callbacks = get(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table = NULL;
    unsigned int size = 0;
    const char *path = getenv("RANGES");
    if (!path || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size))
        return 0;
    file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
    return file >= 0;
}
