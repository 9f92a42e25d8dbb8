/*
 * nvrtc_compile.c - compiles a CUDA source with NVRTC, found at run time, and prints the PTX. The
 * device headers are given as bytes, so nothing else can be included.
 *   nvrtc_compile INCLUDE_DIR SOURCE OPTION...
 * Returns 77, with the reason on standard error, where there is no NVRTC.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*create_function)(void **, const char *, const char *, int, const char *const *,
                               const char *const *);
typedef int (*compile_function)(void *, int, const char *const *);
typedef int (*size_function)(void *, size_t *);
typedef int (*text_function)(void *, char *);

static void *open_library(void)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                        "libnvrtc.so"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
    }
    return NULL;
}

static void function_of(void *library, const char *name, void *out)
{
    void *symbol = dlsym(library, name);
    if (!symbol) {
        fprintf(stderr, "NVRTC has no %s\n", name);
        exit(1);
    }
    memcpy(out, &symbol, sizeof symbol);
}

static char *read_file(const char *directory, const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s%s%s", directory, *directory ? "/" : "", name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    char *text = calloc(1, 1 << 20);
    if (!text || fread(text, 1, (1 << 20) - 1, file) == 0)
        exit(1);
    fclose(file);
    return text;
}

static char *text_of(void *library, void *program, const char *size_name, const char *name)
{
    size_function get_size;
    text_function get;
    size_t size = 0;
    function_of(library, size_name, &get_size);
    function_of(library, name, &get);
    char *text = get_size(program, &size) ? NULL : calloc(1, size + 1);
    if (!text || get(program, text))
        exit(1);
    return text;
}

int main(int argument_count, char **arguments)
{
    static const char *const names[3] = {"diffdispatch/device/ddisp.cuh", "ddisp_add.cuh",
                                         "ddisp_block.h"};
    void *library = open_library(), *program = NULL;
    create_function create;
    compile_function compile;
    const char *headers[3];
    if (argument_count < 3)
        return 1;
    if (!library) {
        fprintf(stderr, "NVRTC not found: %s\n", dlerror());
        return 77;
    }
    char device[4096];
    (void)snprintf(device, sizeof device, "%s/diffdispatch/device", arguments[1]);
    headers[0] = read_file(arguments[1], names[0]);
    headers[1] = read_file(device, names[1]);
    headers[2] = read_file(device, names[2]);
    const char *source = read_file("", arguments[2]);
    function_of(library, "nvrtcCreateProgram", &create);
    function_of(library, "nvrtcCompileProgram", &compile);
    if (create(&program, source, arguments[2], 3, headers, names))
        return 1;
    int result = compile(program, argument_count - 3, (const char *const *)(arguments + 3));
    fputs(text_of(library, program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog"), stderr);
    if (result)
        return 1;
    fputs(text_of(library, program, "nvrtcGetPTXSize", "nvrtcGetPTX"), stdout);
    return 0;
}
