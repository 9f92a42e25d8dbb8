/*
 * requests.c - reads golden.txt and turns its words into descriptions, as a program would write
 * them. Tensors are views of addresses where nothing is: naming a launch touches no memory.
 */
#include "requests.h"

#include <stdlib.h>

#define MOST_WORDS 16

/* Position of a word in a list that ends with NULL; the test fails when it is not there. */
static uint32_t index_of(const char *word, const char *const *list)
{
    for (uint32_t i = 0; list[i]; i++)
        if (strcmp(list[i], word) == 0)
            return i;
    fail_msg("golden.txt: unknown word '%s'", word);
    return 0;
}

static const char *const dtypes[] = {"any", "bool", "u8",  "i8",   "u16", "i16", "u32", "i32",
                                     "u64", "i64",  "f16", "bf16", "f32", "f64", NULL};
static const char *const kinds[] = {"tensor", "scalar", NULL};
static const char *const accesses[] = {"", "in", "out", "inout", NULL};
static const char *const modes[] = {"", "forward", "backward", NULL};
static const char *const policies[] = {"default", "auto",    "specialize", "guard",
                                       "sink",    "scratch", "reject",     NULL};
static const char *const write_modes[] = {"atomic", "plain", "once", "readsback", "unknown", NULL};
static const char *const param_flags[] = {"differentiable", "items", NULL};
static const char *const code_flags[] = {"null_safe", "borrowed", "any_layout", "pre_reduces",
                                         NULL};
static const char *const launch_flags[] = {
    "zero_upstream", "keep_upstream", "overwrite", "no_alloc", "dry_run", "deterministic", NULL};

static uint64_t number(const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 0);
    if (*end)
        fail_msg("golden.txt: '%s' is no number", text);
    return value;
}

/* Words of a line, cut in place; returns how many. */
static uint32_t split(char *line, char *words[MOST_WORDS])
{
    uint32_t count = 0;
    for (char *word = strtok(line, " "); word; word = strtok(NULL, " ")) {
        assert_true(count < MOST_WORDS);
        words[count++] = word;
    }
    for (uint32_t i = count; i < MOST_WORDS; i++)
        words[i] = NULL;
    return count;
}

static uint64_t flags_of(char **words, const char *const *list)
{
    uint64_t flags = 0;
    for (; *words; words++)
        flags |= UINT64_C(1) << index_of(*words, list);
    return flags;
}

/* "3,1" into numbers; "-" gives NULL. Returns how many. */
static uint32_t numbers(const char *text, int64_t *out, const int64_t **out_pointer)
{
    uint32_t count = 0;
    *out_pointer = NULL;
    if (strcmp(text, "-") == 0)
        return 0;
    for (const char *at = text;; at++) {
        char *end;
        out[count++] = strtoll(at, &end, 10);
        at = end;
        if (*at != ',')
            break;
    }
    *out_pointer = out;
    return count;
}

/* Text whose new lines are written as \n. */
static void unescape(const char *from, char *to, size_t capacity)
{
    size_t used = 0;
    for (; *from; from++) {
        assert_true(used + 1 < capacity);
        bool line = from[0] == '\\' && from[1] == 'n';
        to[used++] = line ? '\n' : *from;
        from += line;
    }
    to[used] = '\0';
}

static uint32_t unhex(const char *text, uint8_t *out, uint32_t capacity)
{
    uint32_t count = 0;
    for (; text[0] && text[1]; text += 2) {
        const char digits[3] = {text[0], text[1], '\0'};
        assert_true(count < capacity);
        out[count++] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return count;
}

/* ---- lines */

static void read_param(struct request *r, char **words)
{
    uint32_t i = r->param_count++;
    assert_true(i < MOST_PARTS);
    (void)snprintf(r->param_names[i], sizeof r->param_names[i], "%s", words[0]);
    r->params[i] = (ddisp_param){.name = r->param_names[i],
                                 .kind = index_of(words[1], kinds),
                                 .access = index_of(words[2], accesses),
                                 .dtype = index_of(words[3], dtypes),
                                 .rank = strcmp(words[4], "any") == 0 ? DDISP_RANK_ANY
                                                                      : (uint32_t)number(words[4]),
                                 .flags = flags_of(&words[5], param_flags)};
}

static void read_code(struct request *r, char **words)
{
    uint32_t i = r->code_count++;
    assert_true(i < 2);
    r->codes[i] = (ddisp_code){.backend = "compiler",
                               .format = "rpn",
                               .entries = r->parts[i].entries,
                               .entry_size = (uint32_t)sizeof(ddisp_entry),
                               .params = r->parts[i].params,
                               .param_size = (uint32_t)sizeof(ddisp_code_param),
                               .flags = flags_of(words, code_flags),
                               .headers = r->parts[i].headers,
                               .header_size = (uint32_t)sizeof(ddisp_header)};
}

static void read_code_param(ddisp_code *code, struct code_parts *parts, char **words)
{
    parts->params[code->param_count++] =
        (ddisp_code_param){.param = (uint32_t)number(words[0]),
                           .write_mode = index_of(words[1], write_modes),
                           .grad_dtype = index_of(words[2], dtypes),
                           .layouts = (uint32_t)number(words[3]),
                           .grad_layouts = (uint32_t)number(words[4]),
                           .alignment = (uint32_t)number(words[5]),
                           .switch_id = (uint32_t)number(words[6])};
}

static void read_entry(ddisp_code *code, struct code_parts *parts, char **words)
{
    uint32_t i = code->entry_count++;
    int64_t group[3];
    const int64_t *unused;
    assert_true(i < 4);
    assert_int_equal(numbers(words[2], group, &unused), 3);
    (void)snprintf(parts->entry_names[i], sizeof parts->entry_names[i], "%s", words[1]);
    parts->entries[i] =
        (ddisp_entry){.mode = index_of(words[0], modes),
                      .group_size = {(uint32_t)group[0], (uint32_t)group[1], (uint32_t)group[2]},
                      .name = parts->entry_names[i],
                      .function_id = number(words[3]),
                      .mask = number(words[4]),
                      .flags = number(words[5]),
                      .shared_bytes = (uint32_t)number(words[6])};
}

static void read_native(ddisp_code *code, struct code_parts *parts, char **words)
{
    ddisp_entry *entry = &parts->entries[code->entry_count - 1];
    uint32_t fields[8];
    for (uint32_t i = 0; i < 8; i++)
        fields[i] = (uint32_t)number(words[i]);
    entry->native = parts->natives;
    assert_true(entry->native_count < 4);
    memcpy(&parts->natives[entry->native_count++], fields, sizeof fields);
}

/* A header's or the source's text, which begins behind the first `skip` words. */
static void read_text(ddisp_code *code, struct code_parts *parts, const char *word, char *rest)
{
    if (strcmp(word, "source") == 0) {
        unescape(rest, parts->source, sizeof parts->source);
        code->bytes = parts->source;
        code->size_bytes = strlen(parts->source);
    } else if (strcmp(word, "options") == 0) {
        unescape(rest, parts->options, sizeof parts->options);
        code->options = parts->options;
    } else {
        uint32_t i = code->header_count++;
        assert_true(i < 2);
        char *space = strchr(rest, ' ');
        assert_non_null(space);
        *space = '\0';
        (void)snprintf(parts->header_names[i], sizeof parts->header_names[i], "%s", rest);
        unescape(space + 1, parts->header_texts[i], sizeof parts->header_texts[i]);
        parts->headers[i] = (ddisp_header)DDISP_HEADER(
            parts->header_names[i], parts->header_texts[i], strlen(parts->header_texts[i]));
    }
}

/* "0x40000:5,1" */
static uint64_t read_gradient(char *value, int64_t *strides, const int64_t **out_strides)
{
    char *colon = strchr(value, ':');
    assert_non_null(colon);
    *colon = '\0';
    (void)numbers(colon + 1, strides, out_strides);
    return number(value);
}

static void read_tensor(struct request *r, char **words)
{
    uint32_t i = r->arg_count++;
    assert_true(i < MOST_PARTS);
    ddisp_tensor_view *view = &r->views[i];
    ddisp_arg *arg = &r->args[i];
    arg->view = view;
    view->size = (uint32_t)sizeof *view;
    view->dtype = index_of(words[0], dtypes);
    view->address = number(words[1]);
    view->rank = numbers(words[2], r->shapes[i], &view->shape);
    (void)numbers(words[3], r->strides[i][0], &view->strides);
    for (char **word = &words[4]; *word; word++) {
        char *value = strchr(*word, '=');
        if (value)
            *value++ = '\0';
        if (strcmp(*word, "grad") == 0)
            view->flags = DDISP_VIEW_REQUIRES_GRAD;
        else if (strcmp(*word, "policy") == 0)
            arg->policy = index_of(value, policies);
        else if (strcmp(*word, "gdtype") == 0)
            view->grad_dtype = index_of(value, dtypes);
        else if (strcmp(*word, "add") == 0)
            arg->grad_add = read_gradient(value, r->strides[i][1], &view->grad_add_strides);
        else if (strcmp(*word, "read") == 0)
            arg->grad_read = read_gradient(value, r->strides[i][2], &view->grad_read_strides);
        else
            fail_msg("golden.txt: unknown word '%s'", *word);
    }
}

static void read_scalar(struct request *r, char **words)
{
    uint32_t i = r->arg_count++;
    assert_true(i < MOST_PARTS);
    r->args[i].scalar = &r->scalars[i];
    r->args[i].scalar_size = ddisp_dtype_size(index_of(words[0], dtypes));
}

static void read_line(struct request *r, const char *word, char *rest)
{
    char *words[MOST_WORDS];
    uint32_t last = r->code_count ? r->code_count - 1 : 0;
    if (strcmp(word, "source") == 0 || strcmp(word, "options") == 0 ||
        strcmp(word, "header") == 0) {
        read_text(&r->codes[last], &r->parts[last], word, rest);
        return;
    }
    (void)split(rest, words);
    if (strcmp(word, "device") == 0) {
        (void)snprintf(r->architecture, sizeof r->architecture, "%s", words[0]);
        r->vendor_id = (uint32_t)number(words[1]);
        r->device_id = (uint32_t)number(words[2]);
        r->driver_id = (uint32_t)number(words[3]);
        r->features = number(words[4]);
    } else if (strcmp(word, "param") == 0) {
        read_param(r, words);
    } else if (strcmp(word, "code") == 0) {
        read_code(r, words);
    } else if (strcmp(word, "codeparam") == 0) {
        read_code_param(&r->codes[last], &r->parts[last], words);
    } else if (strcmp(word, "entry") == 0) {
        read_entry(&r->codes[last], &r->parts[last], words);
    } else if (strcmp(word, "native") == 0) {
        read_native(&r->codes[last], &r->parts[last], words);
    } else if (strcmp(word, "launch") == 0) {
        r->mode = index_of(words[0], modes);
        r->options.policy = index_of(words[1], policies);
        r->options.flags = flags_of(&words[2], launch_flags);
    } else if (strcmp(word, "tensor") == 0) {
        read_tensor(r, words);
    } else if (strcmp(word, "scalar") == 0) {
        read_scalar(r, words);
    } else if (strcmp(word, "kernel") == 0) {
        assert_int_equal(unhex(words[0], r->kernel, sizeof r->kernel), 16);
    } else if (strcmp(word, "hash") == 0) {
        assert_int_equal(unhex(words[0], r->hash, sizeof r->hash), 16);
    } else if (strcmp(word, "bytes") == 0) {
        r->byte_count = unhex(words[0], r->bytes, sizeof r->bytes);
    } else {
        fail_msg("golden.txt: unknown word '%s'", word);
    }
}

uint32_t requests_read(const char *path, struct request *requests)
{
    static char line[4096];
    FILE *file = fopen(path, "re");
    uint32_t count = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (!line[0] || line[0] == '#')
            continue;
        char *rest = strchr(line, ' ');
        if (rest)
            *rest++ = '\0';
        else
            rest = line + strlen(line);
        if (strcmp(line, "request") != 0) {
            assert_true(count > 0);
            read_line(&requests[count - 1], line, rest);
            continue;
        }
        assert_true(count < MOST_REQUESTS);
        struct request *r = &requests[count++];
        memset(r, 0, sizeof *r);
        (void)snprintf(r->name, sizeof r->name, "%s", rest);
        (void)snprintf(r->architecture, sizeof r->architecture, "rpn_1");
        r->options.size = (uint32_t)sizeof r->options;
    }
    fclose(file);
    return count;
}

/* ---- asking */

void request_device(const struct request *request)
{
    struct compiler_control *c = control();
    control_reset();
    (void)snprintf(c->architecture, sizeof c->architecture, "%s", request->architecture);
    c->vendor_id = request->vendor_id;
    c->device_id = request->device_id;
    c->driver_id = request->driver_id;
    c->features = request->features;
}

ddisp_status request_kernel(struct request *request, ddisp_context *context,
                            ddisp_kernel **out_kernel)
{
    ddisp_kernel_desc desc = DDISP_ZERO;
    desc.size = (uint32_t)sizeof desc;
    desc.name = "golden";
    desc.params = request->params;
    desc.param_count = request->param_count;
    desc.param_size = (uint32_t)sizeof request->params[0];
    desc.codes = request->codes;
    desc.code_count = request->code_count;
    desc.code_size = (uint32_t)sizeof request->codes[0];
    return ddisp_kernel_create(context, &desc, out_kernel);
}

ddisp_status request_launch_signature(struct request *request, ddisp_kernel *kernel,
                                      ddisp_device *device, ddisp_signature *out_signature)
{
    request->options.device = device;
    memset(out_signature, 0, sizeof *out_signature);
    out_signature->size = (uint32_t)sizeof *out_signature;
    return ddisp_launch_signature(kernel, request->mode, request->args, request->arg_count,
                                  &request->options, NULL, out_signature);
}

void request_signature(struct request *request, ddisp_signature *out_signature)
{
    ddisp_kernel *kernel = NULL;
    request_device(request);
    struct setting *s = setting_open("/nonexistent/not-used");
    assert_ok(request_kernel(request, s->context, &kernel));
    assert_ok(request_launch_signature(request, kernel, s->device, out_signature));
    ddisp_kernel_release(kernel);
    setting_close(s, false);
}
