/*
 * cuda_source.c - CUDA C++ source, read without a compiler: which gradients a variant can leave
 * out.
 *
 * A source says so by its own words: the macro DDISP_SWITCH_<i>, which the library defines as 0 or
 * 1, anywhere outside of comments and strings is its promise for parameter i in all entries. The
 * macros of diffdispatch/device/ddisp.cuh that stand for it count too, but only for the entries in
 * whose bodies they are. In: text of any origin. Out: a mask. Nothing is compiled here.
 */
#include "cuda_code.h"

typedef struct lexer {
    const char *text;
    uint64_t length, at;
} lexer;

typedef enum token_kind { TOKEN_END, TOKEN_NAME, TOKEN_NUMBER, TOKEN_MARK } token_kind;

typedef struct token {
    token_kind kind;
    const char *text;
    uint64_t length;
} token;

/* ---- words */

static char peek(const lexer *self, uint64_t distance)
{
    return distance < self->length - self->at ? self->text[self->at + distance] : '\0';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '$';
}

static void skip_line(lexer *self)
{
    while (self->at < self->length && peek(self, 0) != '\n') {
        self->at += peek(self, 0) == '\\' && peek(self, 1) == '\n' ? 2 : 1;
    }
}

static void skip_comment(lexer *self)
{
    self->at += 2;
    while (self->at < self->length && !(peek(self, 0) == '*' && peek(self, 1) == '/')) {
        self->at++;
    }
    self->at += self->at < self->length ? 2 : 0;
}

/* A string or character between equal marks, which also end with the line. */
static void skip_quoted(lexer *self)
{
    char mark = peek(self, 0);
    for (self->at++; self->at < self->length && peek(self, 0) != '\n'; self->at++) {
        if (peek(self, 0) == '\\') {
            self->at++;
        } else if (peek(self, 0) == mark) {
            self->at++;
            return;
        }
    }
}

/* After R: "delimiter( ... )delimiter". */
static void skip_raw(lexer *self)
{
    const char *delimiter = self->text + self->at + 1;
    uint64_t length = 0;
    while (peek(self, 1 + length) != '(' && length < self->length - self->at) {
        length++;
    }
    for (self->at += 1 + length; self->at < self->length; self->at++) {
        if (peek(self, 0) == ')' && peek(self, 1 + length) == '"' &&
            memcmp(self->text + self->at + 1, delimiter, length) == 0) {
            self->at += length + 2;
            return;
        }
    }
    self->at = self->length;
}

static bool ends_with_raw(const token *word)
{
    static const char *const prefixes[] = {"R", "LR", "uR", "UR", "u8R"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (word->length == strlen(prefixes[i]) &&
            memcmp(word->text, prefixes[i], word->length) == 0) {
            return true;
        }
    }
    return false;
}

static token next(lexer *self)
{
    token word = {TOKEN_END, NULL, 0};
    while (self->at < self->length) {
        char c = peek(self, 0);
        if (c == '/' && peek(self, 1) == '/') {
            skip_line(self);
        } else if (c == '/' && peek(self, 1) == '*') {
            skip_comment(self);
        } else if (c == '"' || c == '\'') {
            skip_quoted(self);
        } else if (c <= ' ') {
            self->at++;
        } else {
            break;
        }
    }
    if (self->at >= self->length) {
        self->at = self->length;
        return word;
    }
    word.text = self->text + self->at;
    if (is_digit(*word.text)) { /* with separators, suffixes and exponents */
        word.kind = TOKEN_NUMBER;
        while (is_name(peek(self, 0)) || peek(self, 0) == '.' ||
               (peek(self, 0) == '\'' && is_name(peek(self, 1)))) {
            self->at++;
        }
    } else if (is_name(*word.text)) {
        word.kind = TOKEN_NAME;
        while (is_name(peek(self, 0))) {
            self->at++;
        }
    } else {
        word.kind = TOKEN_MARK;
        self->at++;
    }
    word.length = (uint64_t)(self->text + self->at - word.text);
    if (word.kind == TOKEN_NAME && ends_with_raw(&word) && peek(self, 0) == '"') {
        skip_raw(self);
    }
    return word;
}

static bool is(const token *word, const char *text)
{
    return word->length == strlen(text) && memcmp(word->text, text, word->length) == 0;
}

/* ---- switches */

/* The bit of a parameter's number, written in decimal without more; 0 when it is none. */
static uint64_t bit_of(const char *text, uint64_t length)
{
    uint32_t number = 0;
    if (length == 0 || length > 2 || (length == 2 && text[0] == '0')) {
        return 0;
    }
    for (uint64_t i = 0; i < length; i++) {
        if (!is_digit(text[i])) {
            return 0;
        }
        number = number * 10 + (uint32_t)(text[i] - '0');
    }
    return number < DDISP_MAX_PARAMS ? UINT64_C(1) << number : 0;
}

/* DDISP_SWITCH_<i>. */
static uint64_t promised(const token *word)
{
    static const char prefix[] = "DDISP_SWITCH_";
    const uint64_t length = sizeof prefix - 1;
    if (word->kind != TOKEN_NAME || word->length <= length ||
        memcmp(word->text, prefix, length) != 0) {
        return 0;
    }
    return bit_of(word->text + length, word->length - length);
}

/* DDISP_SWITCH(i), DDISP_TENSOR(type, i), DDISP_TENSOR_AT(type, i, k). */
static uint64_t by_macro(lexer *self, const token *word)
{
    uint32_t wanted = is(word, "DDISP_SWITCH") ? 0 : 1, argument = 0, depth = 1;
    lexer ahead = *self;
    token only = {TOKEN_END, NULL, 0};
    uint32_t count = 0;
    if (wanted == 1 && !is(word, "DDISP_TENSOR") && !is(word, "DDISP_TENSOR_AT")) {
        return 0;
    }
    token part = next(&ahead);
    if (!is(&part, "(")) {
        return 0;
    }
    for (part = next(&ahead); part.kind != TOKEN_END; part = next(&ahead)) {
        if (is(&part, "(")) {
            depth++;
        } else if (is(&part, ")") && --depth == 0) {
            break;
        } else if (is(&part, ",") && depth == 1) {
            argument++;
        } else if (argument == wanted) {
            only = part;
            count++;
        }
    }
    bool is_number = depth == 0 && count == 1 && only.kind == TOKEN_NUMBER;
    return is_number ? bit_of(only.text, only.length) : 0;
}

/* From behind a function's name: switches of the macros up to the end of its body. */
static uint64_t in_body(lexer self)
{
    uint64_t mask = 0;
    uint32_t depth = 0;
    for (token word = next(&self); word.kind != TOKEN_END; word = next(&self)) {
        if (is(&word, "{")) {
            depth++;
        } else if (is(&word, "}") && (depth <= 1 || --depth == 0)) {
            break;
        } else if (is(&word, ";") && depth == 0) {
            return 0; /* a declaration */
        }
        mask |= by_macro(&self, &word);
    }
    return mask;
}

/* Of the entry that DDISP_KERNEL(name, ...) defines. */
static uint64_t of_entry(const ddisp_code *code, const char *name)
{
    lexer self = {code->bytes, code->size_bytes, 0};
    for (token word = next(&self); word.kind != TOKEN_END; word = next(&self)) {
        if (!is(&word, "DDISP_KERNEL")) {
            continue;
        }
        token open = next(&self), first = next(&self);
        if (is(&open, "(") && first.kind == TOKEN_NAME && is(&first, name)) {
            return in_body(self);
        }
    }
    return 0;
}

static uint64_t of_source(const ddisp_code *code)
{
    lexer self = {code->bytes, code->size_bytes, 0};
    uint64_t promises = 0, macros = UINT64_MAX;
    bool any = false;
    for (token word = next(&self); word.kind != TOKEN_END; word = next(&self)) {
        promises |= promised(&word);
    }
    for (uint32_t i = 0; i < code->entry_count; i++) {
        const ddisp_entry *entry = &code->entries[i];
        if (entry->mode == DDISP_MODE_BACKWARD && !(entry->flags & DDISP_ENTRY_MASKED) &&
            !strstr(entry->name, "{mask}")) {
            macros &= of_entry(code, entry->name);
            any = true;
        }
    }
    return promises | (any ? macros : 0);
}

ddisp_status cuda__source_inspect(const ddisp_backend_services *services,
                                  const ddisp_backend_code *code, ddisp_backend_code_info *info)
{
    const ddisp_code *desc = code->code;
    backend_native_places places;
    uint64_t differentiable = 0;
    uint64_t length = desc->bytes ? strnlen(desc->bytes, desc->size_bytes) : 0;
    if (length == 0 || (length != desc->size_bytes && length + 1 != desc->size_bytes)) {
        return backend_fail(services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: the cuda-c++ code is %s", code->kernel_name,
                            length == 0 ? "empty" : "no text: a byte of it is NUL");
    }
    for (uint32_t i = 0; i < desc->entry_count; i++) {
        const ddisp_entry *entry = &desc->entries[i];
        if (entry->name[0] == '\0') {
            return backend_fail(services, DDISP_STATUS_CODE_INVALID, 0,
                                "kernel %s: entry %u of the cuda-c++ code has no name",
                                code->kernel_name, i);
        }
        ddisp_status status =
            entry->native ? backend_native_place(services, code, entry, &places) : DDISP_STATUS_OK;
        if (status != DDISP_STATUS_OK) {
            return status;
        }
    }
    for (uint32_t i = 0; i < code->param_count; i++) {
        if (code->params[i].flags & DDISP_PARAM_DIFFERENTIABLE) {
            differentiable |= UINT64_C(1) << i;
        }
    }
    info->switch_mask = of_source(desc) & differentiable;
    info->flags = 0;
    return DDISP_STATUS_OK;
}
