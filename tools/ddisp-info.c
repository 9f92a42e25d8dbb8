/*
 * ddisp-info.c - says what the library finds on this machine: its version, every candidate for a
 * backend with the reason when it cannot be used, every device with what it can do, and where
 * compiled kernels are kept.
 *
 * Both forms of output are made of the same calls: text() and number() print one field each, either
 * as an aligned line or as a member of a JSON object. Exit status 0 unless the library itself
 * fails; a machine without devices is no failure.
 */
#include <diffdispatch/backend.h>
#include <diffdispatch/diffdispatch.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool json;
static bool first = true; /* no member of the present JSON object or array was printed yet */

static void quote(const char *value)
{
    putchar('"');
    for (const unsigned char *c = (const unsigned char *)value; *c; c++) {
        if (*c == '"' || *c == '\\')
            printf("\\%c", *c);
        else if (*c < 0x20)
            printf("\\u%04x", (unsigned)*c);
        else
            putchar(*c);
    }
    putchar('"');
}

/* Begins a member; name NULL: of an array. */
static void member(const char *name)
{
    fputs(first ? "" : ", ", stdout);
    first = false;
    if (name) {
        quote(name);
        fputs(": ", stdout);
    }
}

static void begin(const char *name, char bracket)
{
    if (!json)
        return;
    member(name);
    putchar(bracket);
    first = true;
}

static void end(char bracket)
{
    if (!json)
        return;
    putchar(bracket);
    first = false;
}

static void text(const char *name, const char *words, const char *value)
{
    if (json) {
        member(name);
        quote(value);
    } else {
        printf("  %-24s %s\n", words, *value ? value : "-");
    }
}

static void number(const char *name, const char *words, uint64_t value)
{
    if (json) {
        member(name);
        printf("%" PRIu64, value);
    } else {
        printf("  %-24s %" PRIu64 "\n", words, value);
    }
}

static void three(const char *name, const char *words, const uint32_t value[3])
{
    if (json) {
        member(name);
        printf("[%" PRIu32 ", %" PRIu32 ", %" PRIu32 "]", value[0], value[1], value[2]);
    } else if (value[0]) {
        printf("  %-24s %" PRIu32 " x %" PRIu32 " x %" PRIu32 "\n", words, value[0], value[1],
               value[2]);
    } else {
        text(name, words, "");
    }
}

/* A version packed as major * 65536 + minor. */
static void abi(const char *name, const char *words, uint32_t value)
{
    char spelled[32];
    snprintf(spelled, sizeof spelled, "%" PRIu32 ".%" PRIu32, value >> 16, value & 0xffff);
    text(name, words, value ? spelled : "");
}

static void bytes(const char *name, const char *words, uint64_t value)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double scaled = (double)value;
    int unit = 0;
    if (json) {
        number(name, words, value);
        return;
    }
    for (; scaled >= 1024 && unit < 6; unit++)
        scaled /= 1024;
    printf("  %-24s %.*f %s\n", words, unit ? 1 : 0, scaled, units[unit]);
}

static const char *support(ddisp_support value)
{
    switch (value) {
    case DDISP_SUPPORT_NONE:
        return "none";
    case DDISP_SUPPORT_EMULATED:
        return "emulated";
    case DDISP_SUPPORT_NATIVE:
        return "native";
    default:
        return "unknown";
    }
}

static bool fail(const char *what, ddisp_status status)
{
    char message[512];
    ddisp_last_error(message, sizeof message, NULL);
    fprintf(stderr, "ddisp-info: %s: %s: %s\n", what, ddisp_status_name(status), message);
    return false;
}

static bool print_backends(ddisp_context *context)
{
    uint32_t count = 0;
    ddisp_status status = ddisp_backend_count(context, &count);
    if (status != DDISP_STATUS_OK)
        return fail("backends", status);

    begin("backends", '[');
    for (uint32_t i = 0; i < count; i++) {
        ddisp_backend_info info = DDISP_ZERO;
        info.size = (uint32_t)sizeof info;
        status = ddisp_backend_get_info(context, i, &info);
        if (status != DDISP_STATUS_OK)
            return fail("backend", status);
        if (!json)
            printf("\nbackend %s: %s\n", info.name,
                   info.status == DDISP_STATUS_OK ? "usable" : "not usable");
        begin(NULL, '{');
        if (json)
            text("name", "", info.name);
        text("path", "path", info.path);
        text("version", "version", info.version);
        abi("abi", "plugin ABI", info.abi_version);
        text("status", "status", ddisp_status_name(info.status));
        if (json || info.reason[0])
            text("reason", "reason", info.reason);
        number("devices", "devices", info.device_count);
        end('}');
    }
    end(']');
    if (!json && !count)
        printf("\nno backend found: set DDISP_BACKEND_PATH to a directory with ddisp-*.so\n");
    return true;
}

static void print_flags(uint64_t flags)
{
    static const struct {
        uint64_t flag;
        const char *name, *words;
    } names[] = {
        {DDISP_DEVICE_FLAG_SOFTWARE, "software", "runs on the processor"},
        {DDISP_DEVICE_FLAG_HOST_ADDRESSES, "host-addresses", "addresses are host pointers"},
        {DDISP_DEVICE_FLAG_NULL_DESCRIPTOR, "null-descriptor", "null descriptors are defined"},
        {DDISP_DEVICE_FLAG_FAKE, "fake", "a stand-in for tests"},
    };
    begin("flags", '[');
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!(flags & names[i].flag))
            continue;
        if (json) {
            member(NULL);
            quote(names[i].name);
        } else {
            printf("  %-24s %s\n", "property", names[i].words);
        }
    }
    end(']');
}

static void print_device(const ddisp_device_info *info)
{
    char hexadecimal[32];
    begin(NULL, '{');
    if (json) {
        text("spec", "", info->spec);
        text("name", "", info->name);
    } else {
        printf("\ndevice %s: %s\n", info->spec, info->name);
    }
    text("backend", "backend", info->backend);
    number("rank", "rank (auto: highest)", info->rank);
    text("uuid", "UUID", info->uuid);
    text("architecture", "architecture", info->architecture);
    text("driver", "driver", info->driver);
    number("driver_version", "driver's number", info->driver_version);
    snprintf(hexadecimal, sizeof hexadecimal, "%04" PRIx32 ":%04" PRIx32, info->vendor_id,
             info->device_id);
    text("pci", "PCI vendor:device", info->vendor_id ? hexadecimal : "");
    print_flags(info->flags);
    bytes("memory_bytes", "memory", info->memory_bytes);
    bytes("max_allocation_bytes", "largest allocation", info->max_allocation_bytes);
    text("formats", "code formats", info->formats);
    text("specializes", "specializes", info->specializes);
    text("sink", "sink", info->sink);
    text("atomic_add_f16", "atomic add, f16", support(info->atomic_add_f16));
    text("atomic_add_bf16", "atomic add, bf16", support(info->atomic_add_bf16));
    text("atomic_add_f32", "atomic add, f32", support(info->atomic_add_f32));
    text("atomic_add_f64", "atomic add, f64", support(info->atomic_add_f64));
    text("atomic_add_i64", "atomic add, i64", support(info->atomic_add_i64));
    three("max_group_count", "most groups", info->max_group_count);
    three("max_group_size", "largest group", info->max_group_size);
    number("max_group_threads", "most threads of a group", info->max_group_threads);
    number("preferred_group_count", "groups that fill it", info->preferred_group_count);
    number("subgroup_size", "subgroup size", info->subgroup_size);
    bytes("max_shared_bytes", "shared memory of a group", info->max_shared_bytes);
    bytes("max_block_bytes", "largest block by value", info->max_block_bytes);
    snprintf(hexadecimal, sizeof hexadecimal, "0x%" PRIx64, info->features);
    text("features", "feature bits", hexadecimal);
    end('}');
}

static bool print_devices(ddisp_context *context)
{
    uint32_t count = 0;
    ddisp_status status = ddisp_device_count(context, &count);
    if (status != DDISP_STATUS_OK)
        return fail("devices", status);

    begin("devices", '[');
    for (uint32_t i = 0; i < count; i++) {
        ddisp_device_info info = DDISP_ZERO;
        info.size = (uint32_t)sizeof info;
        status = ddisp_device_describe(context, i, &info);
        if (status != DDISP_STATUS_OK)
            return fail("device", status);
        print_device(&info);
    }
    end(']');
    if (!json && !count)
        printf("\nno device\n");
    return true;
}

static bool print_all(ddisp_context *context)
{
    char directory[4096];
    const ddisp_status status =
        ddisp_context_get_cache_directory(context, directory, sizeof directory, NULL);
    if (status != DDISP_STATUS_OK)
        return fail("cache directory", status);

    begin(NULL, '{');
    if (!json)
        printf("libdiffdispatch\n");
    text("version", "version", ddisp_version_string());
    abi("abi", "plugin ABI", DDISP_BACKEND_ABI);
    text("cache_directory", "cache directory", directory);
    const bool done = print_backends(context) && print_devices(context);
    end('}');
    if (json)
        putchar('\n');
    return done;
}

int main(int count, char **words)
{
    static const char usage[] = "usage: ddisp-info [--json | --version | --help]\n"
                                "Says which backends and devices libdiffdispatch finds here.\n";
    ddisp_context *context = NULL;

    if (count == 2 && strcmp(words[1], "--help") == 0) {
        fputs(usage, stdout);
        return 0;
    }
    if (count == 2 && strcmp(words[1], "--version") == 0) {
        printf("ddisp-info %s\n", ddisp_version_string());
        return 0;
    }
    json = count == 2 && strcmp(words[1], "--json") == 0;
    if (count > 2 || (count == 2 && !json)) {
        fputs(usage, stderr);
        return 2;
    }
    const ddisp_status status = ddisp_context_create(NULL, &context);
    if (status != DDISP_STATUS_OK)
        return !fail("context", status);
    const bool done = print_all(context);
    ddisp_context_release(context);
    return done ? 0 : 1;
}
