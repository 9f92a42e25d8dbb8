/*
 * vulkan_scenario.c - see vulkan_scenario.h.
 */
#include "vulkan_scenario.h"

/** Makes a call; notes its failure and, where wanted, makes it once more. */
#define STEP(r, call)                                                                              \
    do {                                                                                           \
        ddisp_status step_status = (r)->fatal ? DDISP_STATUS_OK : (call);                          \
        if (step_status != DDISP_STATUS_OK) {                                                      \
            note(r, step_status);                                                                  \
            if (!(r)->again || (call) != DDISP_STATUS_OK)                                          \
                (r)->fatal = true;                                                                 \
        }                                                                                          \
    } while (0)

static void note(scenario *r, ddisp_status status)
{
    if (r->first != DDISP_STATUS_OK)
        return;
    r->first = status;
    (void)snprintf(r->message, sizeof r->message, "%s", last_message);
}

static ddisp_status build(scenario *r, const code *c)
{
    ddisp_backend_variant wanted = DDISP_ZERO;
    wanted.size = (uint32_t)sizeof wanted;
    wanted.mode = c->entry.mode;
    wanted.code = &c->backend_code;
    wanted.entry = &c->entry;
    wanted.entry_name = "main";
    wanted.switches = UINT64_MAX;
    return r->f.table->variant_build(r->f.device, &wanted, &r->variant);
}

void scenario_work(scenario *r, float found[SCENARIO_COUNT])
{
    const ddisp_backend_table *t = r->f.table;
    float a[SCENARIO_COUNT], b[SCENARIO_COUNT];
    uint64_t ticket = 0;
    for (int i = 0; i < SCENARIO_COUNT; i++) {
        a[i] = (float)i;
        b[i] = 2;
    }
    STEP(r, t->open(&services, &r->f.instance));
    STEP(r, t->device_open(r->f.instance, 0, &r->f.device));
    STEP(r, t->stream_create(r->f.device, DDISP_BACKEND_STREAM_DEFAULT, &r->f.own));
    STEP(r, t->stream_create(r->f.device, 0, &r->other));
    for (int i = 0; i < 3; i++)
        STEP(r, t->memory_allocate(r->f.device, r->f.own, SCENARIO_COUNT * 4, &r->memory[i]));
    STEP(r, t->memory_allocate(r->f.device, r->other, UINT64_C(17) << 20, &r->memory[3]));
    code c;
    code_init(&c, MUL_FORWARD);
    if (!r->fatal)
        STEP(r, build(r, &c));
    const ddisp_backend_range ra = range_of(&r->memory[0], 0, SCENARIO_COUNT * 4);
    const ddisp_backend_range rb = range_of(&r->memory[1], 0, SCENARIO_COUNT * 4);
    const ddisp_backend_range ry = range_of(&r->memory[2], 0, SCENARIO_COUNT * 4);
    const ddisp_backend_range rz = range_of(&r->memory[3], 0, SCENARIO_COUNT * 4);
    const ddisp_backend_range odd = range_of(&r->memory[2], 1, 8);
    STEP(r, t->upload(r->f.device, r->f.own, &ra, a));
    STEP(r, t->upload(r->f.device, r->f.own, &rb, b));
    STEP(r, t->fill(r->f.device, r->f.own, &ry, 0xFF, 1));
    STEP(r, t->fill(r->f.device, r->f.own, &odd, UINT64_C(0x0102030405060708), 8));
    const ddisp_backend_memory *data[3] = {&r->memory[0], &r->memory[1], &r->memory[2]};
    STEP(r, mul_launch(&r->f, r->f.own, r->variant, SCENARIO_COUNT, data, NULL, 0));
    STEP(r, t->stream_flush(r->f.device, r->f.own));
    ddisp_backend_range sink = DDISP_ZERO;
    uint64_t physical = 0;
    STEP(r, t->sink_acquire(r->f.device, UINT64_C(8) << 20, 0, &sink, &physical));
    STEP(r, mul_launch(&r->f, r->f.own, r->variant, SCENARIO_COUNT, data, NULL, 0));
    STEP(r, t->stream_mark(r->f.device, r->f.own, &ticket));
    STEP(r, t->stream_wait(r->f.device, r->other, r->f.own, ticket));
    STEP(r, t->copy(r->f.device, r->other, &rz, &ry));
    STEP(r, t->download(r->f.device, r->other, &rz, found));
    STEP(r, t->stream_synchronize(r->f.device, r->f.own, ticket, UINT64_MAX));
    ddisp_status ready =
        r->fatal ? DDISP_STATUS_OK : t->stream_query(r->f.device, r->f.own, ticket);
    STEP(r, ready);
}

void scenario_finish(scenario *r)
{
    const ddisp_backend_table *t = r->f.table;
    void *const streams[2] = {r->f.own, r->other};
    for (int i = 0; i < 2; i++) {
        uint64_t ticket = 0;
        if (streams[i] && t->stream_mark(r->f.device, streams[i], &ticket) == DDISP_STATUS_OK)
            (void)t->stream_synchronize(r->f.device, streams[i], ticket, UINT64_MAX);
    }
    for (int i = 0; i < 4; i++)
        if (r->memory[i].handle)
            t->memory_free(r->f.device, i == 3 ? r->other : r->f.own, &r->memory[i]);
    if (r->variant)
        t->variant_release(r->f.device, r->variant);
    if (r->other)
        t->stream_destroy(r->f.device, r->other);
    if (r->f.own)
        t->stream_destroy(r->f.device, r->f.own);
    if (r->f.device)
        t->device_close(r->f.device);
    if (r->f.instance)
        t->close(r->f.instance);
}

scenario scenario_run(const fixture *f, bool again, float found[SCENARIO_COUNT])
{
    scenario r = {.f = {.table = f->table}, .again = again};
    memset(found, 0, SCENARIO_COUNT * sizeof *found);
    scenario_work(&r, found);
    scenario_finish(&r);
    if (atomic_load(&live) != 0)
        fail_msg("%d blocks of host memory are left", atomic_load(&live));
    if (fake_vulkan_live() != 0)
        fail_msg("%llu objects of the driver are left", (unsigned long long)fake_vulkan_live());
    assert_int_equal(fake_vulkan_early_waits(), 0);
    return r;
}

bool scenario_right(const float found[SCENARIO_COUNT])
{
    for (int i = 0; i < SCENARIO_COUNT; i++)
        if (found[i] != 2.0f * (float)i)
            return false;
    return true;
}

int scenario_setup(void **state)
{
    static fixture f;
    f.table = plugin_table();
    *state = &f;
    return 0;
}

fixture *scenario_prepared(void **state)
{
    fixture *f = *state;
    void *instance = NULL;
    fake_vulkan_reset();
    ddisp_status status = f->table->open(&services, &instance);
    if (status == DDISP_STATUS_BACKEND_UNAVAILABLE) {
        print_message("# skipped: %s\n", last_message);
        skip();
    }
    assert_ok(status);
    f->table->close(instance);
    fake_vulkan_reset();
    return f;
}
