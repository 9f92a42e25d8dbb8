/*
 * cuda_fixture.c - see cuda_fixture.h.
 */
#include "cuda_fixture.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

const ddisp_backend_table *table;
void *instance, *device, *stream;
char *sample_text;
uint64_t sample_text_size;

int fixture_load(void **state)
{
    ddisp_backend_query_function query = NULL;
    (void)state;
    const char *path = getenv("DDISP_TEST_CUDA_PLUGIN");
    void *plugin = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *symbol = plugin ? dlsym(plugin, "ddisp_cuda_backend_query") : NULL;
    if (!symbol) {
        (void)fprintf(stderr, "DDISP_TEST_CUDA_PLUGIN: %s\n", path ? dlerror() : "not set");
        return -1;
    }
    memcpy(&query, &symbol, sizeof query);
    sample_text = sample_read("sample.ptx", &sample_text_size);
    return query(DDISP_BACKEND_ABI, &sample_services, &table) == DDISP_STATUS_OK ? 0 : -1;
}

int fixture_open(void **state)
{
    (void)state;
    fake_cuda_reset();
    sample_warnings = 0;
    sample_message[0] = '\0';
    if (table->open(&sample_services, &instance) != DDISP_STATUS_OK ||
        table->device_open(instance, 0, &device) != DDISP_STATUS_OK ||
        table->stream_create(device, DDISP_BACKEND_STREAM_DEFAULT, &stream) != DDISP_STATUS_OK) {
        (void)fprintf(stderr, "%s\n", sample_message);
        return -1;
    }
    return 0;
}

int fixture_close(void **state)
{
    (void)state;
    table->stream_destroy(device, stream);
    table->device_close(device);
    table->close(instance);
    if (fake_cuda_live() || sample_live_host_allocations || fake_cuda_current_context() ||
        sample_warnings) {
        (void)fprintf(stderr, "left: %llu in the driver, %llu on the host; %llu warnings\n",
                      (unsigned long long)fake_cuda_live(),
                      (unsigned long long)sample_live_host_allocations,
                      (unsigned long long)sample_warnings);
        return -1;
    }
    return 0;
}

void fixture_says(const char *part)
{
    if (!strstr(sample_message, part)) {
        fail_msg("'%s' is not in: %s", part, sample_message);
    }
}

ddisp_backend_memory fixture_allocate(uint64_t size_bytes)
{
    ddisp_backend_memory memory = {0};
    if (table->memory_allocate(device, stream, size_bytes, &memory) != DDISP_STATUS_OK) {
        fail_msg("%s", sample_message);
    }
    assert_int_equal(memory.address % 256, 0);
    assert_int_equal(memory.size_bytes, size_bytes);
    return memory;
}

void fixture_free(ddisp_backend_memory *memory)
{
    table->memory_free(device, stream, memory);
}

ddisp_backend_range fixture_range(const ddisp_backend_memory *memory, uint64_t offset_bytes,
                                  uint64_t size_bytes)
{
    ddisp_backend_range range = {memory->handle, memory->address + offset_bytes, size_bytes};
    return range;
}

ddisp_status fixture_build(const char *entry, ddisp_mode mode, uint32_t block_size_bytes,
                           uint64_t switches, uint32_t shared_bytes, void **out_variant)
{
    sample_code code;
    ddisp_backend_variant variant = {.size = (uint32_t)sizeof variant};
    sample_declare(&code, sample_text, sample_text_size, mode, entry, 256);
    code.backend_code.block_size_bytes = block_size_bytes;
    code.entries[0].group_size[1] = code.entries[0].group_size[2] = 1;
    code.entries[0].shared_bytes = shared_bytes;
    variant.mode = mode;
    variant.code = &code.backend_code;
    variant.entry = &code.entries[0];
    variant.entry_name = entry;
    variant.switches = switches | ~UINT64_C(3);
    variant.switch_mask = 3;
    return table->variant_build(device, &variant, out_variant);
}

ddisp_status fixture_launch(void *variant, const void *block, uint32_t block_size_bytes,
                            uint32_t shared_bytes)
{
    ddisp_backend_launch launch = {.size = (uint32_t)sizeof launch};
    launch.variant = variant;
    launch.block = block;
    launch.block_size_bytes = block_size_bytes;
    launch.items = 1000;
    launch.grid[0] = 4;
    launch.grid[1] = launch.grid[2] = 1;
    launch.group_size[0] = 256;
    launch.group_size[1] = launch.group_size[2] = 1;
    launch.shared_bytes = shared_bytes;
    return table->launch(device, stream, &launch);
}
