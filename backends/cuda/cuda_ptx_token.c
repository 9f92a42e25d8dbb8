/*
 * cuda_ptx_token.c - cuts PTX text into tokens: words, marks, strings, and switch lines; comments
 * and blanks fall away.
 *
 * In: bytes of any origin, not terminated. Out: one token at a time, or what is wrong in words. It
 * never reads past the length, never writes to the text, and allocates nothing. What lies in a
 * comment or a string is never a switch line.
 */
#include "cuda_ptx_token.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

cuda__token_kind cuda__ptx_broken(cuda__ptx_reader *reader, const char *format, ...)
{
    va_list arguments;
    int used =
        snprintf(reader->why, sizeof reader->why, "line %llu: ", (unsigned long long)reader->line);
    va_start(arguments, format);
    (void)vsnprintf(reader->why + used, sizeof reader->why - (size_t)used, format, arguments);
    va_end(arguments);
    return CUDA__TOKEN_BROKEN;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' ||
           c == '$' || c == '%' || c == '.';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static char peek(const cuda__ptx_reader *reader, uint64_t at)
{
    return at < reader->length ? reader->text[at] : '\0';
}

static uint64_t skip_blanks(const cuda__ptx_reader *reader, uint64_t at)
{
    while (is_blank(peek(reader, at))) {
        at++;
    }
    return at;
}

/* Steps over expected text; 0 when it is not there. */
static uint64_t expect(const cuda__ptx_reader *reader, uint64_t at, const char *text)
{
    uint64_t length = strlen(text);
    if (reader->length - at < length || memcmp(reader->text + at, text, length) != 0) {
        return 0;
    }
    return at + length;
}

/*
 * The one line that is a switch, as a whole: blanks, "mov.u32", blanks, %r<digits>, "," blanks "1",
 * ";", blanks, "// DDISP_SWITCH(<i>)", end of line. At most one blank before "," and ";".
 */
static bool read_switch(cuda__ptx_reader *reader)
{
    uint64_t at = expect(reader, skip_blanks(reader, reader->at), "mov.u32");
    if (!at || !is_blank(peek(reader, at))) {
        return false;
    }
    at = expect(reader, skip_blanks(reader, at), "%r");
    if (!at || !is_digit(peek(reader, at))) {
        return false;
    }
    while (is_digit(peek(reader, at))) {
        at++;
    }
    at = expect(reader, at + is_blank(peek(reader, at)), ",");
    if (!at || !is_blank(peek(reader, at))) {
        return false;
    }
    uint64_t one = skip_blanks(reader, at);
    at = expect(reader, one, "1");
    if (!at) {
        return false;
    }
    at = expect(reader, at + is_blank(peek(reader, at)), ";");
    if (!at || !is_blank(peek(reader, at))) {
        return false;
    }
    at = expect(reader, skip_blanks(reader, at), "// DDISP_SWITCH(");
    if (!at || !is_digit(peek(reader, at))) {
        return false;
    }
    uint32_t index = (uint32_t)(peek(reader, at++) - '0');
    if (index != 0 && is_digit(peek(reader, at))) {
        index = index * 10 + (uint32_t)(peek(reader, at++) - '0');
    }
    at = expect(reader, at, ")");
    if (!at || index >= 64) {
        return false;
    }
    if (peek(reader, at) == '\r') {
        at++;
    }
    if (at < reader->length && reader->text[at] != '\n') {
        return false;
    }
    reader->switch_index = index;
    reader->switch_offset = one;
    reader->at = at;
    return true;
}

static bool skip_comment(cuda__ptx_reader *reader)
{
    if (peek(reader, reader->at + 1) == '/') {
        while (reader->at < reader->length && reader->text[reader->at] != '\n') {
            reader->at++;
        }
        return true;
    }
    uint64_t start = reader->line;
    for (reader->at += 2; reader->at < reader->length; reader->at++) {
        if (reader->text[reader->at] == '\n') {
            reader->line++;
        } else if (reader->text[reader->at] == '*' && peek(reader, reader->at + 1) == '/') {
            reader->at += 2;
            return true;
        }
    }
    (void)cuda__ptx_broken(reader, "the text ends in a comment that begins in line %llu",
                           (unsigned long long)start);
    return false;
}

static cuda__token_kind read_string(cuda__ptx_reader *reader)
{
    for (reader->at++; reader->at < reader->length; reader->at++) {
        char c = reader->text[reader->at];
        if (c == '"') {
            reader->at++;
            return CUDA__TOKEN_STRING;
        }
        if (c == '\n') {
            break;
        }
        if (c == '\\' && peek(reader, reader->at + 1) != '\n') {
            reader->at++;
        }
    }
    return cuda__ptx_broken(reader, "a string is not closed");
}

cuda__token cuda__ptx_token(cuda__ptx_reader *reader)
{
    cuda__token result = {CUDA__TOKEN_END, NULL, 0};
    while (reader->at < reader->length) {
        char c = reader->text[reader->at];
        if (reader->line_start) {
            reader->line_start = false;
            if (read_switch(reader)) {
                result.kind = CUDA__TOKEN_SWITCH;
                return result;
            }
        }
        if (c == '\n') {
            reader->line++;
            reader->at++;
            reader->line_start = true;
        } else if (is_blank(c) || c == '\r' || c == '\f' || c == '\v') {
            reader->at++;
        } else if (c == '/' &&
                   (peek(reader, reader->at + 1) == '/' || peek(reader, reader->at + 1) == '*')) {
            if (!skip_comment(reader)) {
                result.kind = CUDA__TOKEN_BROKEN;
                return result;
            }
        } else {
            break;
        }
    }
    if (reader->at == reader->length) {
        return result;
    }
    result.text = reader->text + reader->at;
    uint64_t start = reader->at;
    if (is_word(*result.text)) {
        result.kind = CUDA__TOKEN_WORD;
        while (is_word(peek(reader, reader->at))) {
            reader->at++;
        }
    } else if (*result.text == '"') {
        result.kind = read_string(reader);
    } else if (*result.text > ' ' && *result.text < 127) {
        result.kind = CUDA__TOKEN_MARK;
        reader->at++;
    } else {
        result.kind = cuda__ptx_broken(reader, "byte 0x%02x is no part of PTX",
                                       (unsigned int)(unsigned char)*result.text);
    }
    result.length = reader->at - start;
    return result;
}

bool cuda__token_is(const cuda__token *word, const char *text)
{
    return (word->kind == CUDA__TOKEN_WORD || word->kind == CUDA__TOKEN_MARK) &&
           word->length == strlen(text) && memcmp(word->text, text, word->length) == 0;
}

/* A decimal number that fills the token. */
bool cuda__token_number(const cuda__token *word, uint64_t *out_value)
{
    uint64_t value = 0;
    if (word->kind != CUDA__TOKEN_WORD || word->length == 0 || word->length > 10) {
        return false;
    }
    for (uint64_t i = 0; i < word->length; i++) {
        if (!is_digit(word->text[i])) {
            return false;
        }
        value = value * 10 + (uint64_t)(word->text[i] - '0');
    }
    *out_value = value;
    return true;
}
