/*
 * cuda_life.c - see cuda_life.h.
 */
#include "cuda_life.h"

#include "cuda_elf.h"

#include <stdio.h>
#include <stdlib.h>

/* Looks around after every call of the table. */
static void look(life *self)
{
    uint64_t now = fake_cuda_call_count(NULL);
    self->disturbed |= fake_cuda_current_context() != self->context;
    if (self->lost) {
        self->after_loss += (int)(now - self->known);
    }
    self->known = now;
    self->lost = fake_cuda_lost();
}

static int did(life *self, ddisp_status status)
{
    look(self);
    if (status != DDISP_STATUS_OK && self->status == DDISP_STATUS_OK) {
        self->status = status;
        (void)snprintf(self->message, sizeof self->message, "%s", sample_message);
    }
    return status == DDISP_STATUS_OK;
}

static void expect(life *self, const void *got, const void *wanted, size_t size)
{
    self->wrong |= memcmp(got, wanted, size) != 0;
}

/* Both ways through memory, once small and once large. */
static void transfer(life *self, uint64_t size_bytes)
{
    ddisp_backend_memory memory = {0}, other = {0};
    unsigned char *sent = malloc(size_bytes), *got = calloc(1, size_bytes);
    memset(sent, 0x42, size_bytes);
    if (did(self, table->memory_allocate(device, stream, size_bytes, &memory))) {
        ddisp_backend_range range = fixture_range(&memory, 0, size_bytes);
        if (did(self, table->memory_allocate(device, stream, size_bytes, &other))) {
            ddisp_backend_range copy = fixture_range(&other, 0, size_bytes);
            if (did(self, table->upload(device, stream, &range, sent)) &&
                did(self, table->copy(device, stream, &copy, &range)) &&
                did(self, table->download(device, stream, &copy, got))) {
                expect(self, got, sent, size_bytes);
            }
            for (size_t i = 0; i < size_bytes; i++) {
                sent[i] = (unsigned char)(UINT64_C(0x0102030405060708) >> 8 * (i % 8));
            }
            if (did(self, table->fill(device, stream, &range, 7, 1)) &&
                did(self, table->fill(device, stream, &range, UINT64_C(0x0102030405060708), 8)) &&
                did(self, table->download(device, stream, &range, got))) {
                expect(self, got, sent, size_bytes);
            }
            table->memory_free(device, stream, &other);
            look(self);
        }
        table->memory_free(device, stream, &memory);
        look(self);
    }
    free(sent);
    free(got);
}

static void compute(life *self)
{
    static const unsigned char block[WIDE_BLOCK_BYTES];
    void *variant = NULL;
    if (did(self, fixture_build("sample_backward", DDISP_MODE_BACKWARD, SAMPLE_BLOCK_BYTES, 1,
                                60000, &variant))) {
        (void)did(self, fixture_launch(variant, block, SAMPLE_BLOCK_BYTES, 60000));
        table->variant_release(device, variant);
        look(self);
    }
    if (did(self,
            fixture_build("sample_wide", DDISP_MODE_FORWARD, WIDE_BLOCK_BYTES, 3, 0, &variant))) {
        (void)did(self, fixture_launch(variant, block, WIDE_BLOCK_BYTES, 0));
        table->variant_release(device, variant);
        look(self);
    }
}

/* Code of other formats, and code that was kept. */
static void compile(life *self)
{
    static const char source[] = "extern \"C\" __global__ void blocked(block)";
    static const size_t block_bytes[1] = {SAMPLE_BLOCK_BYTES};
    unsigned char bytes[ELF_CAPACITY];
    sample_code code;
    void *variant = NULL, *artifact = NULL;
    uint64_t size = 0;
    ddisp_backend_variant wanted = {.size = (uint32_t)sizeof wanted,
                                    .mode = DDISP_MODE_BACKWARD,
                                    .code = &code.backend_code,
                                    .entry = &code.entries[0],
                                    .switches = UINT64_MAX,
                                    .switch_mask = 3};
    fake_cuda_set_function_params(block_bytes, 1);
    sample_declare(&code, (const char *)bytes, elf_sm_90("k", NULL, bytes), DDISP_MODE_BACKWARD,
                   "k", 256);
    code.code.format = "cubin";
    code.entries[0].group_size[1] = code.entries[0].group_size[2] = 1;
    wanted.entry_name = "k";
    if (did(self, table->variant_build(device, &wanted, &variant))) {
        table->variant_release(device, variant);
        look(self);
    }
    sample_declare(&code, source, sizeof source - 1, DDISP_MODE_BACKWARD, "blocked", 256);
    code.code.format = "cuda-c++";
    code.entries[0].group_size[1] = code.entries[0].group_size[2] = 1;
    wanted.entry_name = "blocked";
    if (did(self,
            table->artifact_make(&sample_services, device, "sm_90", &wanted, &artifact, &size))) {
        wanted.artifact = artifact;
        wanted.artifact_size_bytes = size;
        if (did(self, table->variant_build(device, &wanted, &variant))) {
            table->variant_release(device, variant);
            look(self);
        }
        sample_services.release(NULL, artifact);
    }
}

/* A recording with a launch whose block goes by pointer, replayed and changed. */
static void record(life *self)
{
    static unsigned char block[WIDE_BLOCK_BYTES];
    unsigned char bytes[64] = {0}, wanted[64];
    void *variant = NULL, *graph = NULL;
    ddisp_backend_memory memory = {0};
    ddisp_backend_launch launch = {.size = (uint32_t)sizeof launch,
                                   .block = block,
                                   .block_size_bytes = WIDE_BLOCK_BYTES,
                                   .items = 1000,
                                   .grid = {4, 1, 1},
                                   .group_size = {256, 1, 1}};
    memset(wanted, 0x33, sizeof wanted);
    if (!did(self, table->memory_allocate(device, stream, 64, &memory))) {
        return;
    }
    ddisp_backend_range range = fixture_range(&memory, 0, 64);
    if (did(self,
            fixture_build("sample_wide", DDISP_MODE_FORWARD, WIDE_BLOCK_BYTES, 3, 0, &variant))) {
        launch.variant = variant;
        if (did(self, table->capture_begin(device, stream))) {
            int whole = did(self, table->fill(device, stream, &range, 0x33, 1)) &&
                        did(self, table->launch(device, stream, &launch));
            ddisp_status ended = table->capture_end(device, stream, &graph);
            (void)did(self, ended);
            if (ended != DDISP_STATUS_OK) { /* as the core does */
                (void)did(self, table->capture_end(device, stream, NULL));
            }
            if (ended == DDISP_STATUS_OK && whole &&
                did(self, table->graph_launch(device, stream, graph)) &&
                did(self, table->graph_update(device, graph, 0, &launch)) &&
                did(self, table->graph_launch(device, stream, graph)) &&
                did(self, table->download(device, stream, &range, bytes))) {
                expect(self, bytes, wanted, sizeof bytes);
            }
            if (ended == DDISP_STATUS_OK) {
                table->graph_release(device, graph);
                look(self);
            }
        }
        if (did(self, table->capture_begin(device, stream))) {
            (void)did(self, table->fill(device, stream, &range, 0, 1));
            (void)did(self, table->capture_end(device, stream, NULL));
        }
        table->variant_release(device, variant);
        look(self);
    }
    table->memory_free(device, stream, &memory);
    look(self);
}

static void tell_time(life *self)
{
    void *legacy = NULL;
    uint64_t begin = 0, end = 0, elapsed = 0;
    if (did(self, table->stream_wrap(device, 0, &legacy))) {
        if (did(self, table->stream_mark_timed(device, legacy, &begin)) &&
            did(self, table->stream_mark_timed(device, stream, &end)) &&
            did(self, table->stream_elapsed(device, legacy, begin, stream, end, &elapsed))) {
            self->wrong |= elapsed != 1500000;
        }
        table->stream_destroy(device, legacy);
        look(self);
    }
}

static void order(life *self)
{
    void *other = NULL;
    uint64_t ticket = 0;
    if (did(self, table->stream_create(device, 0, &other))) {
        if (did(self, table->stream_flush(device, stream)) &&
            did(self, table->stream_mark(device, stream, &ticket)) &&
            did(self, table->stream_mark(device, stream, &ticket)) &&
            did(self, table->stream_wait(device, other, stream, ticket))) {
            (void)did(self, table->stream_query(device, stream, ticket));
            (void)did(self, table->stream_mark(device, stream, &ticket));
            (void)did(self, table->stream_synchronize(device, stream, ticket, UINT64_MAX));
            (void)did(self, table->stream_synchronize(device, stream, ticket, 1));
        }
        table->stream_destroy(device, other);
        look(self);
    }
}

void live(life *self)
{
    ddisp_device_info info = {.size = (uint32_t)sizeof info};
    void *opened = NULL, *made = NULL;
    memset(self, 0, sizeof *self);
    self->context = fake_cuda_current_context();
    self->known = fake_cuda_call_count(NULL);
    if (!did(self, table->open(&sample_services, &instance))) {
        return;
    }
    (void)did(self, table->device_describe(instance, 0, &info));
    if (did(self, table->device_open(instance, 0, &opened))) {
        device = opened;
        if (did(self, table->stream_create(device, DDISP_BACKEND_STREAM_DEFAULT, &made))) {
            stream = made;
            transfer(self, 1000);
            transfer(self, 100000);
            compute(self);
            compile(self);
            record(self);
            tell_time(self);
            order(self);
            table->stream_destroy(device, stream);
            look(self);
        }
        table->device_close(device);
        look(self);
    }
    table->close(instance);
    look(self);
}
