/*
 * compiler_fixture.c - see compiler_fixture.h. COMPILER_DIRECTORY is where the plugin was built.
 */
#define _GNU_SOURCE /* nftw, asprintf */

#include "compiler_fixture.h"

#include <dirent.h>
#include <dlfcn.h>
#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

struct compiler_control *control(void)
{
    static struct compiler_control *found;
    if (!found) {
        void *plugin = dlopen(COMPILER_DIRECTORY "/ddisp-compiler.so", RTLD_NOW | RTLD_LOCAL);
        assert_non_null(plugin);
        found = dlsym(plugin, "compiler_control");
        assert_non_null(found);
    }
    return found;
}

void control_reset(void)
{
    struct compiler_control *c = control();
    *c = (struct compiler_control){.architecture = "rpn_1", .version = "compiler 1"};
}

/* ---- directories */

void directory_make(char path[256])
{
    const char *place = getenv("TMPDIR");
    (void)snprintf(path, 256, "%s/ddisp-cache-XXXXXX", place ? place : "/tmp");
    assert_non_null(mkdtemp(path));
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

void directory_remove(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int visible(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

uint32_t directory_list(const char *path, char *text, size_t capacity)
{
    struct dirent **names;
    int count = scandir(path, &names, visible, alphasort);
    size_t used = 0;
    if (text)
        text[0] = '\0';
    for (int i = 0; i < count; i++) {
        if (text && used < capacity)
            used += (size_t)snprintf(text + used, capacity - used, "%s\n", names[i]->d_name);
        free(names[i]);
    }
    if (count >= 0)
        free(names);
    return count < 0 ? 0 : (uint32_t)count;
}

/* ---- settings */

static void log_message(void *user_data, ddisp_log_level level, const char *message)
{
    struct setting *s = user_data;
    if (level != DDISP_LOG_LEVEL_WARNING)
        return;
    s->warnings++;
    (void)snprintf(s->warning, sizeof s->warning, "%s", message);
}

static void *allocate(void *user_data, uint64_t size_bytes)
{
    struct setting *s = user_data;
    if (__atomic_add_fetch(&s->calls, 1, __ATOMIC_RELAXED) == s->fail_at)
        return NULL;
    void *block = malloc(size_bytes);
    if (block)
        __atomic_add_fetch(&s->blocks, 1, __ATOMIC_RELAXED);
    return block;
}

static void release(void *user_data, void *pointer)
{
    struct setting *s = user_data;
    __atomic_sub_fetch(&s->blocks, 1, __ATOMIC_RELAXED);
    free(pointer);
}

struct setting *setting_open(const char *directory)
{
    struct setting *s = calloc(1, sizeof *s);
    assert_non_null(s);
    (void)control();
    if (directory)
        (void)snprintf(s->directory, sizeof s->directory, "%s", directory);
    else
        directory_make(s->directory);
    const ddisp_allocator allocator = {.size = (uint32_t)sizeof allocator,
                                       .user_data = s,
                                       .allocate = allocate,
                                       .release = release};
    ddisp_context_desc desc = DDISP_ZERO;
    desc.size = (uint32_t)sizeof desc;
    desc.allocator = &allocator;
    desc.log = log_message;
    desc.log_user_data = s;
    desc.log_level = DDISP_LOG_LEVEL_DEBUG;
    desc.backends = "compiler";
    desc.backend_path = COMPILER_DIRECTORY;
    desc.cache_directory = s->directory[0] ? s->directory : NULL;
    assert_ok(ddisp_context_create(&desc, &s->context));
    assert_ok(ddisp_device_open(s->context, "compiler", &s->device));
    return s;
}

void setting_close(struct setting *s, bool remove_directory)
{
    ddisp_device_release(s->device);
    ddisp_context_release(s->context);
    assert_int_equal(s->blocks, 0); /* nothing leaks, whatever the test did */
    if (remove_directory)
        directory_remove(s->directory);
    free(s);
}

/* ---- kernels */

ddisp_status kernel_try(struct setting *s, const struct recipe *recipe, ddisp_kernel **out_kernel)
{
    const ddisp_param params[3] = {
        DDISP_PARAM("a", DDISP_ACCESS_IN, DDISP_DTYPE_F32, DDISP_RANK_ANY,
                    DDISP_PARAM_DIFFERENTIABLE),
        DDISP_PARAM("b", DDISP_ACCESS_IN, DDISP_DTYPE_F32, DDISP_RANK_ANY,
                    DDISP_PARAM_DIFFERENTIABLE),
        DDISP_PARAM("y", DDISP_ACCESS_OUT, DDISP_DTYPE_F32, DDISP_RANK_ANY,
                    DDISP_PARAM_DIFFERENTIABLE),
    };
    const ddisp_entry entries[2] = {
        DDISP_ENTRY(DDISP_MODE_FORWARD, "forward", 1),
        DDISP_ENTRY(DDISP_MODE_BACKWARD, "backward", 1),
    };
    const char *source = recipe->source ? recipe->source : SOURCE_MUL;
    ddisp_code code = DDISP_CODE("compiler", "rpn", source, strlen(source), entries, recipe->flags);
    ddisp_kernel_desc desc = DDISP_ZERO;
    code.entry_count = recipe->forward_only ? 1 : 2;
    code.params = recipe->code_params;
    code.param_count = recipe->code_param_count;
    code.param_size = (uint32_t)sizeof(ddisp_code_param);
    code.options = recipe->options;
    code.headers = recipe->headers;
    code.header_count = recipe->header_count;
    code.header_size = (uint32_t)sizeof(ddisp_header);
    desc.size = (uint32_t)sizeof desc;
    desc.variant_budget = recipe->variant_budget;
    desc.name = recipe->name ? recipe->name : "k";
    desc.params = recipe->params ? recipe->params : params;
    desc.param_count = recipe->params ? recipe->param_count : 3;
    desc.param_size = (uint32_t)sizeof(ddisp_param);
    desc.codes = &code;
    desc.code_count = 1;
    desc.code_size = (uint32_t)sizeof code;
    return ddisp_kernel_create(s->context, &desc, out_kernel);
}

ddisp_kernel *kernel_make(struct setting *s, const struct recipe *recipe)
{
    ddisp_kernel *kernel = NULL;
    assert_ok(kernel_try(s, recipe, &kernel));
    return kernel;
}

ddisp_kernel_statistics kernel_statistics(ddisp_kernel *kernel)
{
    ddisp_kernel_statistics statistics = DDISP_ZERO;
    statistics.size = (uint32_t)sizeof statistics;
    assert_ok(ddisp_kernel_get_statistics(kernel, &statistics));
    return statistics;
}

/* ---- tensors */

ddisp_tensor *vector(struct setting *s, uint64_t flags, const float *values, int64_t count)
{
    ddisp_tensor *made = NULL;
    assert_ok(ddisp_tensor_create(s->device, DDISP_DTYPE_F32, 1, &count, flags, &made));
    if (values && count)
        assert_ok(ddisp_tensor_write(made, values, (uint64_t)count * sizeof *values, NULL));
    return made;
}

ddisp_tensor *tensor(struct setting *s, ddisp_dtype dtype, uint32_t rank, const int64_t *shape,
                     const int64_t *strides, uint64_t flags)
{
    ddisp_buffer *buffer = NULL;
    ddisp_tensor *made = NULL;
    uint64_t elements = 1;
    for (uint32_t i = 0; i < rank; i++)
        elements += (uint64_t)(shape[i] > 0 ? shape[i] - 1 : 0) *
                    (uint64_t)(strides ? llabs(strides[i]) : 0);
    if (!strides) {
        assert_ok(ddisp_tensor_create(s->device, dtype, rank, shape, flags, &made));
        return made;
    }
    assert_ok(ddisp_buffer_create(s->device, elements * ddisp_dtype_size(dtype), &buffer));
    assert_ok(ddisp_tensor_create_over(buffer, dtype, rank, shape, strides, 0, flags, &made));
    ddisp_buffer_release(buffer);
    return made;
}

void expect(ddisp_tensor *checked, const float *values, int64_t count)
{
    float got[256];
    assert_true(count <= 256);
    assert_ok(ddisp_tensor_read(checked, got, (uint64_t)count * sizeof *got, NULL));
    for (int64_t i = 0; i < count; i++)
        if (got[i] != values[i])
            fail_msg("element %d is %g, expected %g", (int)i, (double)got[i], (double)values[i]);
}
