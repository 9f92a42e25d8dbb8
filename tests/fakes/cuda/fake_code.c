/*
 * fake_code.c - the stand-in driver's modules, links, functions and launches. Modules are PTX text,
 * or ELF files, of which no more is understood than the names in them. A link gives its text back.
 */
#include "fake_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- images */

static bool is_elf(const void *image)
{
    return memcmp(image, "\177ELF", 4) == 0;
}

/* Section headers come last in the files of the toolkit. */
static size_t elf_size(const unsigned char *image)
{
    uint64_t section_offset;
    uint16_t section_bytes, section_count, program_bytes, program_count;
    uint64_t program_offset;
    memcpy(&program_offset, image + 32, 8);
    memcpy(&section_offset, image + 40, 8);
    memcpy(&program_bytes, image + 54, 2);
    memcpy(&program_count, image + 56, 2);
    memcpy(&section_bytes, image + 58, 2);
    memcpy(&section_count, image + 60, 2);
    uint64_t sections = section_offset + (uint64_t)section_bytes * section_count;
    uint64_t programs = program_offset + (uint64_t)program_bytes * program_count;
    return sections > programs ? sections : programs;
}

/* Where the name of an entry stands in PTX text, behind it; NULL when there is none. */
static const char *find_entry(const char *text, const char *name)
{
    static const char word[] = ".entry";
    size_t length = strlen(name);
    for (const char *at = text; (at = strstr(at, word)) != NULL;) {
        at += sizeof word - 1;
        while (isspace((unsigned char)*at)) {
            at++;
        }
        if (strncmp(at, name, length) == 0 && !isalnum((unsigned char)at[length]) &&
            at[length] != '_' && at[length] != '$') {
            return at + length;
        }
    }
    return NULL;
}

static bool has_entry(const struct CUmod_st *module, const char *name)
{
    char between[300];
    if (!is_elf(module->text)) {
        return find_entry(module->text, name) != NULL;
    }
    int length = snprintf(between + 1, sizeof between - 1, "%s", name);
    between[0] = '\0';
    return memmem(module->text, module->size_bytes, between, (size_t)length + 2) != NULL;
}

/* Of ".param .u64 name", ".param .align 8 .b8 name[992]". */
static size_t param_size(const char *text)
{
    static const struct {
        const char *type;
        size_t bytes;
    } types[] = {{".u64", 8}, {".s64", 8}, {".b64", 8}, {".f64", 8}, {".u32", 4}, {".s32", 4},
                 {".b32", 4}, {".f32", 4}, {".u16", 2}, {".b16", 2}, {".u8", 1},  {".b8", 1}};
    size_t end = strcspn(text, ",)");
    const char *bracket = memchr(text, '[', end);
    size_t count = bracket ? strtoul(bracket + 1, NULL, 10) : 1;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const char *found = strstr(text, types[i].type);
        if (found && found < text + end && isspace((unsigned char)found[strlen(types[i].type)])) {
            return types[i].bytes * count;
        }
    }
    abort(); /* a test's kernel that this file must be taught */
}

bool fake_param_sizes(const struct CUfunc_st *function, size_t sizes[FAKE_PARAMS],
                      size_t *out_count)
{
    *out_count = fake.param_count;
    memcpy(sizes, fake.param_sizes, sizeof fake.param_sizes);
    if (is_elf(function->module->text)) {
        return fake.param_count > 0;
    }
    const char *at = find_entry(function->module->text, function->name);
    const char *end = strchr(at, ')');
    *out_count = 0;
    while ((at = strstr(at, ".param")) != NULL && at < end && *out_count < FAKE_PARAMS) {
        at += strlen(".param");
        sizes[(*out_count)++] = param_size(at);
    }
    return true;
}

/* ---- modules */

static void write_log(unsigned int option_count, const unsigned int *options,
                      void *const *option_values)
{
    static const char log[] = "fake log: line 1: no good";
    char *buffer = NULL;
    size_t capacity = 0;
    for (unsigned int i = 0; i < option_count; i++) {
        if (options[i] == CU__JIT_ERROR_LOG_BUFFER) {
            buffer = option_values[i];
        } else if (options[i] == CU__JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
            capacity = (size_t)(uintptr_t)option_values[i];
        }
    }
    if (buffer && capacity >= sizeof log) {
        memcpy(buffer, log, sizeof log);
    }
}

cu__result cuModuleLoadDataEx(cu__module *out_module, const void *image, unsigned int option_count,
                              unsigned int *options, void **option_values)
{
    cu__result result = fake_begin_unsafe(FAKE_module_load_data_ex);
    if (result == CU__SUCCESS && !is_elf(image) && !strstr(image, ".entry")) {
        result = CU__ERROR_INVALID_PTX;
    }
    if (result == CU__ERROR_INVALID_PTX) {
        write_log(option_count, options, option_values);
    }
    if (result == CU__SUCCESS) {
        *out_module = calloc(1, sizeof **out_module);
        (*out_module)->size_bytes = is_elf(image) ? elf_size(image) : strlen(image) + 1;
        (*out_module)->text = malloc((*out_module)->size_bytes);
        memcpy((*out_module)->text, image, (*out_module)->size_bytes);
        fake.modules++;
    }
    return fake_end(result);
}

cu__result cuModuleUnload(cu__module module)
{
    cu__result result = fake_begin_unsafe(FAKE_module_unload);
    if (fake_releases(result)) {
        while (module->functions) {
            struct CUfunc_st *function = module->functions;
            module->functions = function->next;
            free(function);
        }
        free(module->text);
        free(module);
        fake.modules--;
    }
    return fake_end(result);
}

cu__result cuModuleGetFunction(cu__function *out_function, cu__module module, const char *name)
{
    cu__result result = fake_begin_current(FAKE_module_get_function);
    if (result == CU__SUCCESS && !has_entry(module, name)) {
        result = CU__ERROR_NOT_FOUND;
    }
    if (result == CU__SUCCESS) {
        struct CUfunc_st *function = calloc(1, sizeof *function);
        function->module = module;
        strncpy(function->name, name, sizeof function->name - 1);
        function->next = module->functions;
        *out_function = module->functions = function;
    }
    return fake_end(result);
}

cu__result cuFuncGetAttribute(int *out_value, unsigned int attribute, cu__function function)
{
    cu__result result = fake_begin_current(FAKE_func_get_attribute);
    (void)function;
    if (result == CU__SUCCESS) {
        switch (attribute) {
        case CU__FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
            *out_value = fake.max_threads;
            break;
        case CU__FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
            *out_value = fake.static_shared_bytes;
            break;
        default:
            result = CU__ERROR_INVALID_VALUE;
        }
    }
    return fake_end(result);
}

cu__result cuFuncSetAttribute(cu__function function, unsigned int attribute, int value)
{
    cu__result result = fake_begin_current(FAKE_func_set_attribute);
    if (result == CU__SUCCESS && attribute != CU__FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        result = CU__ERROR_INVALID_VALUE;
    }
    if (result == CU__SUCCESS) {
        function->dynamic_shared_bytes = value;
    }
    return fake_end(result);
}

cu__result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out_groups, cu__function function,
                                                       int group_size, size_t shared_bytes)
{
    cu__result result = fake_begin_current(FAKE_occupancy);
    (void)function;
    (void)shared_bytes;
    *out_groups = 1024 / group_size;
    return fake_end(result);
}

cu__result cuFuncGetParamInfo(cu__function function, size_t index, size_t *out_offset_bytes,
                              size_t *out_size_bytes)
{
    size_t sizes[FAKE_PARAMS], count = 0, offset = 0;
    cu__result result = fake_begin_current(FAKE_func_get_param_info);
    if (result == CU__SUCCESS && (!fake_param_sizes(function, sizes, &count) || index >= count)) {
        result = CU__ERROR_INVALID_VALUE;
    }
    if (result == CU__SUCCESS) {
        for (size_t i = 0; i <= index; i++) {
            offset = (offset + sizes[i] - 1) / sizes[i] * sizes[i];
            *out_offset_bytes = offset;
            offset += sizes[i];
        }
        *out_size_bytes = sizes[index];
    }
    return fake_end(result);
}

/* ---- links */

struct CUlinkState_st {
    char *text;
    size_t size_bytes;
    char *log;
    size_t log_bytes;
};

cu__result cuLinkCreate_v2(unsigned int option_count, unsigned int *options, void **option_values,
                           cu__link *out_link)
{
    cu__result result = fake_begin_current(FAKE_link_create);
    if (result == CU__SUCCESS) {
        *out_link = calloc(1, sizeof **out_link);
        (*out_link)->log = option_count > 0 ? option_values[0] : NULL;
        (*out_link)->log_bytes = option_count > 1 ? (size_t)(uintptr_t)option_values[1] : 0;
        if (option_count != 2 || options[0] != CU__JIT_ERROR_LOG_BUFFER ||
            options[1] != CU__JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
            abort(); /* the one way that the backend uses */
        }
        fake.links++;
    }
    return fake_end(result);
}

cu__result cuLinkAddData_v2(cu__link link, unsigned int type, void *data, size_t size_bytes,
                            const char *name, unsigned int option_count, unsigned int *options,
                            void **option_values)
{
    static const char log[] = "fake log: line 1: no good";
    const char *text = data;
    cu__result result = fake_begin_current(FAKE_link_add_data);
    (void)name;
    (void)options;
    (void)option_values;
    if (result == CU__SUCCESS && (type != CU__JIT_INPUT_PTX || size_bytes == 0 ||
                                  text[size_bytes - 1] != '\0' || option_count != 0)) {
        result = CU__ERROR_INVALID_VALUE;
    }
    if (result == CU__SUCCESS && !strstr(text, ".entry")) {
        result = CU__ERROR_INVALID_PTX;
    }
    if (result == CU__ERROR_INVALID_PTX && link->log_bytes >= sizeof log) {
        memcpy(link->log, log, sizeof log);
    }
    if (result == CU__SUCCESS) {
        link->text = malloc(size_bytes);
        memcpy(link->text, text, size_bytes);
        link->size_bytes = size_bytes;
    }
    return fake_end(result);
}

cu__result cuLinkComplete(cu__link link, void **out_cubin, size_t *out_size_bytes)
{
    cu__result result = fake_begin_current(FAKE_link_complete);
    if (result == CU__SUCCESS && !link->text) {
        result = CU__ERROR_INVALID_VALUE;
    }
    *out_cubin = link->text;
    *out_size_bytes = link->size_bytes;
    return fake_end(result);
}

cu__result cuLinkDestroy(cu__link link)
{
    cu__result result = fake_begin_current(FAKE_link_destroy);
    if (fake_releases(result)) {
        free(link->text);
        free(link);
        fake.links--;
    }
    return fake_end(result);
}

/* ---- launches */

static void run_kernel(const struct CUgraphNode_st *node)
{
    void *parameters[FAKE_PARAMS];
    struct CUgraphNode_st copy = *node;
    size_t at = 0;
    for (size_t i = 0; i < copy.param_count; i++) {
        parameters[i] = copy.params + at;
        at += (copy.param_sizes[i] + 15) / 16 * 16;
    }
    if (fake.kernel && strcmp(fake.kernel_name, copy.function->name) == 0) {
        fake.kernel(copy.function->module->text, parameters, copy.grid, copy.group);
    } else if (fake.launcher) {
        fake.launcher(copy.function->name, parameters, copy.grid, copy.group, copy.shared_bytes);
    }
}

/* Copies what the parameters point to, as long as the driver knows their sizes. */
bool fake_fill_kernel(struct CUgraphNode_st *node, struct CUfunc_st *function, void **parameters)
{
    size_t at = 0;
    node->run = run_kernel;
    node->function = function;
    if (!fake_param_sizes(function, node->param_sizes, &node->param_count)) {
        return false;
    }
    for (size_t i = 0; i < node->param_count; i++) {
        memcpy(node->params + at, parameters[i], node->param_sizes[i]);
        at += (node->param_sizes[i] + 15) / 16 * 16;
    }
    return true;
}

cu__result cuLaunchKernel(cu__function function, unsigned int grid_x, unsigned int grid_y,
                          unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                          unsigned int block_z, unsigned int shared_bytes, cu__stream stream,
                          void **parameters, void **extra)
{
    cu__result result = fake_begin_current(FAKE_launch_kernel);
    unsigned int grid[3] = {grid_x, grid_y, grid_z}, group[3] = {block_x, block_y, block_z};
    unsigned int allowed_bytes =
        function->dynamic_shared_bytes ? (unsigned int)function->dynamic_shared_bytes : 49152u;
    if (result == CU__SUCCESS &&
        (grid_x == 0 || grid_y == 0 || grid_z == 0 || block_x == 0 || block_y == 0 ||
         block_z == 0 || shared_bytes > allowed_bytes || extra)) {
        result = CU__ERROR_INVALID_VALUE;
    }
    if (result == CU__SUCCESS) {
        struct CUgraphNode_st now, *node = fake_record(stream);
        struct CUgraphNode_st *work = node ? node : &now;
        memcpy(work->grid, grid, sizeof grid);
        memcpy(work->group, group, sizeof group);
        work->shared_bytes = shared_bytes;
        if (!fake_fill_kernel(work, function, parameters)) {
            result = CU__ERROR_INVALID_VALUE;
        } else if (!node) {
            run_kernel(work);
        }
    }
    return fake_end(result);
}
