/*
 * cuda_include.c - CUDA C++ source, read for what it includes: a file that was not given with the
 * code is read from the disk by NVRTC, which looks into the working directory too, and then
 * nobody can tell whether what was compiled from it still holds.
 *
 * In: source and headers. Out: whether they include nothing but each other. Directives that this
 * does not understand (a macro for a name, __has_include) count as including something else, and
 * so do those in comments: the price is a compilation.
 */
#include "cuda_code.h"

/* One line of text, joined with those that it is continued on. */
typedef struct line {
    const char *at, *end;
} line;

/* The next character of the line, or '\n' at its end. */
static char next(line *self)
{
    while (self->end - self->at >= 2 && self->at[0] == '\\' &&
           (self->at[1] == '\n' ||
            (self->at[1] == '\r' && self->end - self->at >= 3 && self->at[2] == '\n'))) {
        self->at += self->at[1] == '\n' ? 2 : 3;
    }
    if (self->at == self->end || *self->at == '\n') {
        return '\n';
    }
    return *self->at++;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* The words of a line without blanks, as far as they fit. */
static void squeeze(line *self, char *text, size_t capacity)
{
    size_t used = 0;
    for (char c = next(self); c != '\n'; c = next(self)) {
        if (!is_space(c) && used + 1 < capacity) {
            text[used++] = c;
        }
    }
    text[used] = '\0';
}

static bool is_given(const ddisp_code *code, const char *name, size_t length)
{
    for (uint32_t i = 0; i < code->header_count; i++) {
        if (strlen(code->headers[i].name) == length &&
            memcmp(code->headers[i].name, name, length) == 0) {
            return true;
        }
    }
    return false;
}

/* A line without blanks: whether it reads nothing that was not given. */
static bool is_closed(const ddisp_code *code, const char *text)
{
    if (strstr(text, "__has_include") || strstr(text, "__has_embed")) {
        return false;
    }
    size_t mark = text[0] == '#'                  ? 1
                  : strncmp(text, "%:", 2) == 0   ? 2
                  : strncmp(text, "?\?=", 3) == 0 ? 3
                                                  : 0;
    const char *word = text + mark;
    if (mark == 0 ||
        (!strstr(word, "include") && !strstr(word, "import") && !strstr(word, "embed"))) {
        return true;
    }
    if (strncmp(word, "include", 7) != 0 || (word[7] != '"' && word[7] != '<')) {
        return strncmp(word, "include", 7) != 0 && strncmp(word, "import", 6) != 0 &&
               strncmp(word, "embed", 5) != 0 && !strstr(word, "*/");
    }
    const char *name = word + 8, *end = strchr(name, word[7] == '"' ? '"' : '>');
    return end && is_given(code, name, (size_t)(end - name));
}

static bool text_is_closed(const ddisp_code *code, const void *bytes, uint64_t size_bytes)
{
    char text[512];
    line rest = {bytes, (const char *)bytes + size_bytes};
    while (rest.at < rest.end) {
        squeeze(&rest, text, sizeof text);
        if (!is_closed(code, text)) {
            return false;
        }
        rest.at += rest.at < rest.end; /* the end of the line */
    }
    return true;
}

bool cuda__source_is_closed(const ddisp_code *code)
{
    bool closed = text_is_closed(code, code->bytes, code->size_bytes);
    for (uint32_t i = 0; i < code->header_count && closed; i++) {
        closed = text_is_closed(code, code->headers[i].bytes, code->headers[i].size_bytes);
    }
    return closed;
}
