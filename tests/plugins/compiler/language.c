/*
 * language.c - the compiler plugin's language: reads source with its headers, compiles one entry to
 * a program, runs a program over the items of a block. Knows nothing of devices or caches.
 */
#include "language.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MOST_DEFINES 32
#define DEEPEST      8

struct define {
    char name[32];
    double value;
};

struct state {
    const ddisp_code *code;
    const char *entry;
    uint64_t switches, gradients;
    struct program *program;
    struct define defines[MOST_DEFINES];
    uint32_t define_count;
    uint32_t depth; /* of the stack while compiling */
    bool found;
    char *message;
};

__attribute__((format(printf, 2, 3))) static bool fail(struct state *s, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(s->message, LANGUAGE_MESSAGE, format, arguments);
    va_end(arguments);
    return false;
}

/* Digits, a point, a sign: not strtod, which reads as the locale says. */
static bool read_number(const char *text, double *out_value)
{
    double value = 0, scale = 1;
    bool negative = *text == '-', digits = false, point = false;
    for (const char *at = text + negative; *at; at++) {
        if (*at == '.' && !point) {
            point = true;
        } else if (*at >= '0' && *at <= '9') {
            digits = true;
            value = value * 10 + (*at - '0');
            scale *= point ? 10 : 1;
        } else {
            return false;
        }
    }
    *out_value = (negative ? -value : value) / scale;
    return digits;
}

static bool define(struct state *s, const char *name, const char *text)
{
    double value;
    if (!read_number(text, &value))
        return fail(s, "#define %.40s: '%.40s' is no number", name, text);
    if (s->define_count == MOST_DEFINES)
        return fail(s, "more than %d defines", MOST_DEFINES);
    struct define *d = &s->defines[s->define_count++];
    (void)snprintf(d->name, sizeof d->name, "%s", name);
    d->value = value;
    return true;
}

/* ---- an entry's tokens */

static bool emit(struct state *s, enum op_kind kind, uint32_t index, double value, int change)
{
    struct program *p = s->program;
    if (p->op_count == LANGUAGE_OPS)
        return fail(s, "entry '%s' has more than %d tokens", s->entry, LANGUAGE_OPS);
    if (change < 0 &&
        s->depth < (kind == OP_ADD || kind == OP_SUBTRACT || kind == OP_MULTIPLY ? 2u : 1u))
        return fail(s, "entry '%s': the stack is empty", s->entry);
    p->ops[p->op_count++] = (struct op){.kind = (uint32_t)kind, .index = index, .value = value};
    s->depth = (uint32_t)((int)s->depth + change);
    if (s->depth > p->depth)
        p->depth = s->depth;
    return true;
}

/* A decimal index below 64 that ends the token. */
static bool read_index(const char *text, uint32_t *out_index)
{
    double value;
    if (!read_number(text, &value) || value < 0 || value > 63)
        return false;
    *out_index = (uint32_t)value;
    return true;
}

static bool compile_token(struct state *s, const char *token)
{
    uint32_t index;
    double value;
    if (strcmp(token, "+") == 0)
        return emit(s, OP_ADD, 0, 0, -1);
    if (strcmp(token, "-") == 0)
        return emit(s, OP_SUBTRACT, 0, 0, -1);
    if (strcmp(token, "*") == 0)
        return emit(s, OP_MULTIPLY, 0, 0, -1);
    if (token[0] == '$' && read_index(token + 1, &index))
        return emit(s, OP_DATA, index, 0, 1);
    if (token[0] == '@' && read_index(token + 1, &index))
        return emit(s, OP_UPSTREAM, index, 0, 1);
    if (token[0] == '%' && read_index(token + 1, &index))
        return emit(s, OP_SCALAR, index, 0, 1);
    if (token[0] == '>' && token[1] == '>' && read_index(token + 2, &index)) {
        s->gradients |= UINT64_C(1) << index;
        return emit(s, s->switches >> index & 1 ? OP_ADD_GRADIENT : OP_DROP, index, 0, -1);
    }
    if (token[0] == '>' && read_index(token + 1, &index))
        return emit(s, OP_STORE, index, 0, -1);
    if (read_number(token, &value))
        return emit(s, OP_NUMBER, 0, value, 1);
    for (uint32_t i = s->define_count; i-- > 0;)
        if (strcmp(s->defines[i].name, token) == 0)
            return emit(s, OP_NUMBER, 0, s->defines[i].value, 1);
    return fail(s, "entry '%s': unknown word '%.40s'", s->entry, token);
}

/* Next word of a line, cut off in place; NULL at its end. */
static char *word(char **line)
{
    char *at = *line + strspn(*line, " \t");
    size_t length = strcspn(at, " \t");
    if (length == 0)
        return NULL;
    *line = at + length + (at[length] != '\0');
    at[length] = '\0';
    return at;
}

/* ---- lines */

static bool read_text(struct state *s, const char *text, uint64_t size_bytes, uint32_t depth);

/* A file of a directory that "-I<directory>" names. */
static bool include_file(struct state *s, const char *name, uint32_t depth)
{
    static const char option[] = "-I";
    char path[512], text[2048];
    const char *at = s->code->options;
    while ((at = strstr(at, option))) {
        at += strlen(option);
        (void)snprintf(path, sizeof path, "%.*s/%s", (int)strcspn(at, " "), at, name);
        FILE *file = fopen(path, "re");
        if (!file)
            continue;
        size_t length = fread(text, 1, sizeof text, file);
        fclose(file);
        return read_text(s, text, length, depth + 1);
    }
    return fail(s, "#include \"%.64s\": no such header", name);
}

static bool include(struct state *s, const char *name, uint32_t depth)
{
    if (depth == DEEPEST)
        return fail(s, "#include \"%.64s\": more than %d deep", name, DEEPEST);
    for (uint32_t i = 0; i < s->code->header_count; i++)
        if (strcmp(s->code->headers[i].name, name) == 0)
            return read_text(s, s->code->headers[i].bytes, s->code->headers[i].size_bytes,
                             depth + 1);
    return include_file(s, name, depth);
}

static bool read_line(struct state *s, char *line, uint32_t depth)
{
    char *first = word(&line);
    if (!first)
        return true;
    char *second = word(&line);
    if (!second)
        return fail(s, "nothing follows '%.40s'", first);
    if (strcmp(first, "#include") == 0) {
        size_t length = strlen(second);
        if (length < 3 || second[0] != '"' || second[length - 1] != '"')
            return fail(s, "#include %.64s: the name stands in quotes", second);
        second[length - 1] = '\0';
        return include(s, second + 1, depth);
    }
    if (strcmp(first, "#define") == 0) {
        char *value = word(&line);
        return define(s, second, value ? value : "");
    }
    if (strcmp(first, "entry") != 0)
        return fail(s, "unknown statement '%.40s'", first);
    size_t length = strlen(second);
    if (second[length - 1] != ':')
        return fail(s, "a colon follows the name of entry '%.40s'", second);
    second[length - 1] = '\0';
    if (strcmp(second, s->entry) != 0)
        return true;
    s->found = true;
    bool good = true;
    for (char *token = word(&line); token && good; token = word(&line))
        good = compile_token(s, token);
    if (good && s->depth != 0)
        return fail(s, "entry '%s' leaves %u values on the stack", s->entry, s->depth);
    return good;
}

static bool read_text(struct state *s, const char *text, uint64_t size_bytes, uint32_t depth)
{
    for (uint64_t at = 0; at < size_bytes;) {
        char line[512];
        uint64_t end = at;
        while (end < size_bytes && text[end] != '\n')
            end++;
        if (end - at >= sizeof line)
            return fail(s, "a line has more than %zu letters", sizeof line - 1);
        memcpy(line, text + at, end - at);
        line[end - at] = '\0';
        if (!read_line(s, line, depth))
            return false;
        at = end + 1;
    }
    return true;
}

/* -DNAME=number */
static bool read_options(struct state *s, const char *options)
{
    char copy[512];
    (void)snprintf(copy, sizeof copy, "%s", options);
    char *line = copy;
    for (char *option = word(&line); option; option = word(&line)) {
        if (strncmp(option, "-I", 2) == 0)
            continue;
        char *equals = strchr(option, '=');
        if (strncmp(option, "-D", 2) != 0 || !equals)
            return fail(s, "unknown option '%.40s'", option);
        *equals = '\0';
        if (!define(s, option + 2, equals + 1))
            return false;
    }
    return true;
}

bool language_compile(const ddisp_code *code, const char *entry, uint64_t switches,
                      struct program *out_program, uint64_t *out_gradients,
                      char message[LANGUAGE_MESSAGE])
{
    struct state s = {.code = code,
                      .entry = entry,
                      .switches = switches,
                      .program = out_program,
                      .message = message};
    memset(out_program, 0, sizeof *out_program);
    memcpy(out_program->magic, "RPN 1", 6);
    if (!read_options(&s, code->options) || !read_text(&s, code->bytes, code->size_bytes, 0))
        return false;
    if (!s.found)
        return fail(&s, "there is no entry '%.64s'", entry);
    *out_gradients = s.gradients;
    return true;
}

bool language_check(const void *bytes, uint64_t size_bytes, struct program *out_program)
{
    if (size_bytes != sizeof *out_program)
        return false;
    memcpy(out_program, bytes, sizeof *out_program);
    return memcmp(out_program->magic, "RPN 1", 6) == 0 && out_program->op_count <= LANGUAGE_OPS &&
           out_program->depth <= LANGUAGE_OPS;
}

/* ---- running */

/* Element `item` of an index space of this shape; 0 for items past its end. */
static float *element(uint64_t address, const ddisp_device_tensor *t, const int64_t *strides,
                      uint64_t item)
{
    int64_t offset = 0;
    for (uint32_t i = t->rank; i-- > 0;) {
        offset += (int64_t)(item % (uint64_t)t->shape[i]) * strides[i];
        item /= (uint64_t)t->shape[i];
    }
    return (float *)(uintptr_t)address + offset;
}

static void add_atomically(float *target, float value)
{
    uint32_t *bits = (uint32_t *)(void *)target;
    uint32_t seen = __atomic_load_n(bits, __ATOMIC_RELAXED), wanted;
    do {
        float sum;
        memcpy(&sum, &seen, sizeof sum);
        sum += value;
        memcpy(&wanted, &sum, sizeof wanted);
    } while (!__atomic_compare_exchange_n(bits, &seen, wanted, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
}

static void run_item(const struct program *program, const ddisp_block *block, uint64_t item)
{
    double stack[LANGUAGE_OPS + 1], *top = stack;
    for (uint32_t i = 0; i < program->op_count; i++) {
        const struct op *op = &program->ops[i];
        const ddisp_device_tensor *t = DDISP_BLOCK_TENSOR(block, op->index);
        float scalar;
        switch ((enum op_kind)op->kind) {
        case OP_NUMBER:
            *++top = op->value;
            break;
        case OP_DATA:
            *++top = *element(t->data, t, t->stride, item);
            break;
        case OP_UPSTREAM:
            *++top = t->grad_read ? *element(t->grad_read, t, t->read_stride, item) : 0;
            break;
        case OP_SCALAR:
            memcpy(&scalar, DDISP_BLOCK_SCALAR(block, op->index), sizeof scalar);
            *++top = scalar;
            break;
        case OP_ADD:
            top--;
            *top += top[1];
            break;
        case OP_SUBTRACT:
            top--;
            *top -= top[1];
            break;
        case OP_MULTIPLY:
            top--;
            *top *= top[1];
            break;
        case OP_STORE:
            *element(t->data, t, t->stride, item) = (float)*top--;
            break;
        case OP_ADD_GRADIENT:
            if (t->grad_add)
                add_atomically(element(t->grad_add, t, t->add_stride, item), (float)*top);
            top--;
            break;
        case OP_DROP:
            top--;
            break;
        }
    }
}

void language_run(const struct program *program, const ddisp_block *block, uint64_t items)
{
    for (uint64_t item = 0; item < items; item++)
        run_item(program, block, item);
}
