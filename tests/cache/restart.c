/*
 * restart.c - see restart.h.
 */
#include "restart.h"

/* One launch of y = f(a, b), forward; the kernel's counters. */
ddisp_kernel_statistics run(struct setting *s, const struct recipe *recipe, float expected)
{
    ddisp_kernel *kernel = kernel_make(s, recipe);
    ddisp_tensor *a = VECTOR(s, 0, 5, 6), *b = VECTOR(s, 0, 2, 2), *y = VECTOR(s, 0, 0, 0);
    const ddisp_arg args[3] = {DDISP_ARG(a), DDISP_ARG(b), DDISP_ARG(y)};
    assert_ok(ddisp_launch(kernel, DDISP_MODE_FORWARD, args, 3, NULL, NULL));
    float got[2];
    assert_ok(ddisp_tensor_read(y, got, sizeof got, NULL));
    if (got[0] != expected)
        fail_msg("y[0] is %g, expected %g", (double)got[0], (double)expected);
    ddisp_kernel_statistics statistics = kernel_statistics(kernel);
    ddisp_tensor_release(a);
    ddisp_tensor_release(b);
    ddisp_tensor_release(y);
    ddisp_kernel_release(kernel);
    return statistics;
}

/* The same in a new context on the directory. */
ddisp_kernel_statistics restart(const char *directory, const struct recipe *recipe, float expected)
{
    struct setting *s = setting_open(directory);
    ddisp_kernel_statistics statistics = run(s, recipe, expected);
    assert_int_equal(s->warnings, 0);
    setting_close(s, false);
    return statistics;
}

int restart_fresh(void **state)
{
    static char directory[256];
    control_reset();
    directory_make(directory);
    *state = directory;
    return 0;
}

int restart_gone(void **state)
{
    directory_remove(*state);
    return 0;
}

/* Path of the only entry. */
void only_entry(const char *directory, char path[512])
{
    char names[4096];
    assert_int_equal(directory_list(directory, names, sizeof names), 1);
    names[strcspn(names, "\n")] = '\0';
    (void)snprintf(path, 512, "%s/%s", directory, names);
}

void put_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

size_t get_file(const char *path, unsigned char *bytes, size_t capacity)
{
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    size_t size = fread(bytes, 1, capacity, file);
    fclose(file);
    assert_true(size < capacity);
    return size;
}

void file_of(const char *directory, const char *name, const char *text)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    put_file(path, text, strlen(text));
}
