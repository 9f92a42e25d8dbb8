/*
 * cuda_ptx_reader.c - reads PTX text as far as this backend needs: the three header directives, the
 * declarations of entries, and where bodies begin and end.
 *
 * In: tokens. Out: events in text order, or what is wrong in words. Text that ends inside a body, a
 * declaration, a comment or a string is not taken for PTX, so that a truncated file is noticed.
 */
#include "cuda_ptx_token.h"

#include <string.h>

/* ---- header */

static bool read_version(cuda__ptx_reader *reader, const cuda__token *word)
{
    cuda__token major = *word, minor = *word;
    uint64_t numbers[2];
    const char *dot = word->kind == CUDA__TOKEN_WORD ? memchr(word->text, '.', word->length) : NULL;
    if (dot) {
        major.length = (uint64_t)(dot - word->text);
        minor.text = dot + 1;
        minor.length = word->length - major.length - 1;
        if (cuda__token_number(&major, &numbers[0]) && cuda__token_number(&minor, &numbers[1]) &&
            numbers[0] < 1000 && numbers[1] < 1000) {
            reader->header.version_major = (uint32_t)numbers[0];
            reader->header.version_minor = (uint32_t)numbers[1];
            return true;
        }
    }
    (void)cuda__ptx_broken(reader, ".version is not followed by a number such as 8.0");
    return false;
}

static bool read_target(cuda__ptx_reader *reader, const cuda__token *word)
{
    cuda__ptx_header *header = &reader->header;
    cuda__token digits = *word;
    uint64_t value;
    if (word->kind == CUDA__TOKEN_WORD && word->length > 3 &&
        word->length < sizeof header->target && memcmp(word->text, "sm_", 3) == 0) {
        char last = word->text[word->length - 1];
        bool suffix = last == 'a' || last == 'f';
        digits.text += 3;
        digits.length -= suffix ? 4 : 3;
        if (cuda__token_number(&digits, &value) && value >= 10 && value < 10000) {
            header->target_major = (uint32_t)value / 10;
            header->target_minor = (uint32_t)value % 10;
            header->target_suffix = suffix ? last : '\0';
            memcpy(header->target, word->text, word->length);
            header->target[word->length] = '\0';
            return true;
        }
    }
    (void)cuda__ptx_broken(reader, ".target does not begin with an architecture such as sm_75");
    return false;
}

static bool directive(cuda__ptx_reader *reader, const char *name, cuda__token *out_value)
{
    cuda__token word = cuda__ptx_token(reader);
    if (word.kind == CUDA__TOKEN_BROKEN) {
        return false;
    }
    if (!cuda__token_is(&word, name)) {
        (void)cuda__ptx_broken(reader, "%s is missing", name);
        return false;
    }
    *out_value = cuda__ptx_token(reader);
    return out_value->kind != CUDA__TOKEN_BROKEN;
}

bool cuda__ptx_open(cuda__ptx_reader *reader, const void *bytes, uint64_t size_bytes)
{
    cuda__token value;
    uint64_t address_size = 0;
    memset(reader, 0, sizeof *reader);
    reader->text = bytes;
    reader->length = bytes ? size_bytes : 0;
    reader->line = 1;
    reader->line_start = true;
    while (reader->length > 0 && reader->text[reader->length - 1] == '\0') {
        reader->length--;
    }
    const char *nul = reader->length ? memchr(reader->text, '\0', reader->length) : NULL;
    if (nul) {
        (void)cuda__ptx_broken(reader, "byte %llu of the text is NUL",
                               (unsigned long long)(nul - reader->text));
        return false;
    }
    if (!directive(reader, ".version", &value) || !read_version(reader, &value) ||
        !directive(reader, ".target", &value) || !read_target(reader, &value)) {
        return false;
    }
    for (;;) { /* options of .target */
        cuda__ptx_reader before = *reader;
        cuda__token comma = cuda__ptx_token(reader);
        if (!cuda__token_is(&comma, ",")) {
            *reader = before;
            break;
        }
        value = cuda__ptx_token(reader);
        if (value.kind == CUDA__TOKEN_BROKEN) {
            return false;
        }
    }
    if (!directive(reader, ".address_size", &value)) {
        return false;
    }
    if (!cuda__token_number(&value, &address_size) || address_size != 64) {
        (void)cuda__ptx_broken(reader, ".address_size is not 64");
        return false;
    }
    return true;
}

/* ---- declarations of entries */

static uint32_t type_bytes(const cuda__token *word)
{
    static const struct {
        char name[8];
        uint32_t bytes;
    } types[] = {
        {".b8", 1},  {".u8", 1},  {".s8", 1},  {".b16", 2},   {".u16", 2},   {".s16", 2},
        {".f16", 2}, {".b32", 4}, {".u32", 4}, {".s32", 4},   {".f32", 4},   {".b64", 8},
        {".u64", 8}, {".s64", 8}, {".f64", 8}, {".b128", 16}, {".f16x2", 4},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (cuda__token_is(word, types[i].name)) {
            return types[i].bytes;
        }
    }
    return 0;
}

static bool truncated(cuda__ptx_reader *reader, const cuda__token *at, const char *where)
{
    if (at->kind == CUDA__TOKEN_END) {
        (void)cuda__ptx_broken(reader, "the text ends in %s", where);
    }
    return at->kind == CUDA__TOKEN_END || at->kind == CUDA__TOKEN_BROKEN;
}

/* After "(": parameters up to ")". Only the first is measured. */
static bool read_params(cuda__ptx_reader *reader, cuda__ptx_entry *entry)
{
    uint32_t bytes = 0;
    uint64_t count = 1;
    bool array = false;
    for (;;) {
        cuda__token word = cuda__ptx_token(reader);
        if (truncated(reader, &word, "the parameters of an entry")) {
            return false;
        }
        if (cuda__token_is(&word, ".param")) {
            entry->param_count++;
        } else if (cuda__token_is(&word, "[")) {
            word = cuda__ptx_token(reader);
            array = true;
            if (!cuda__token_number(&word, &count)) {
                (void)truncated(reader, &word, "the parameters of an entry");
                if (word.kind == CUDA__TOKEN_WORD || word.kind == CUDA__TOKEN_MARK) {
                    (void)cuda__ptx_broken(reader, "the size of a parameter is not a number");
                }
                return false;
            }
        } else if (bytes == 0 && entry->param_count == 1 && type_bytes(&word)) {
            bytes = type_bytes(&word);
        } else if (cuda__token_is(&word, ",") || cuda__token_is(&word, ")")) {
            if (entry->param_count == 1) {
                entry->param_bytes = bytes * count;
                entry->param_is_scalar = !array;
            }
            if (cuda__token_is(&word, ")")) {
                return true;
            }
        } else if (cuda__token_is(&word, "{") || cuda__token_is(&word, "}") ||
                   cuda__token_is(&word, ";") || cuda__token_is(&word, "(")) {
            (void)cuda__ptx_broken(reader, "the parameters of an entry are not closed");
            return false;
        }
    }
}

/* After .reqntid or .maxntid: one to three numbers. */
static bool read_extent(cuda__ptx_reader *reader, uint32_t extent[3])
{
    extent[0] = extent[1] = extent[2] = 1;
    for (int axis = 0; axis < 3; axis++) {
        uint64_t value;
        cuda__token word = cuda__ptx_token(reader);
        if (word.kind == CUDA__TOKEN_BROKEN) {
            return false;
        }
        if (!cuda__token_number(&word, &value) || value == 0 || value > UINT32_MAX) {
            (void)cuda__ptx_broken(reader, ".reqntid or .maxntid is not followed by numbers");
            return false;
        }
        extent[axis] = (uint32_t)value;
        cuda__ptx_reader before = *reader;
        word = cuda__ptx_token(reader);
        if (!cuda__token_is(&word, ",")) {
            *reader = before;
            break;
        }
    }
    return true;
}

/* After ".entry": up to "{" (true, a body follows) or ";" (true, a declaration only). */
static bool read_entry(cuda__ptx_reader *reader, bool *out_body)
{
    cuda__ptx_entry *entry = &reader->entry;
    memset(entry, 0, sizeof *entry);
    cuda__token word = cuda__ptx_token(reader);
    if (truncated(reader, &word, "the declaration of an entry")) {
        return false;
    }
    if (word.kind != CUDA__TOKEN_WORD) {
        (void)cuda__ptx_broken(reader, ".entry is not followed by a name");
        return false;
    }
    entry->name = word.text;
    entry->name_length = word.length;
    for (;;) {
        word = cuda__ptx_token(reader);
        if (truncated(reader, &word, "the declaration of an entry")) {
            return false;
        }
        if (cuda__token_is(&word, "{") || cuda__token_is(&word, ";")) {
            *out_body = cuda__token_is(&word, "{");
            return true;
        }
        if ((cuda__token_is(&word, "(") && !read_params(reader, entry)) ||
            (cuda__token_is(&word, ".reqntid") && !read_extent(reader, entry->required)) ||
            (cuda__token_is(&word, ".maxntid") && !read_extent(reader, entry->maximum))) {
            return false;
        }
        if (cuda__token_is(&word, ".entry") || cuda__token_is(&word, ".func") ||
            cuda__token_is(&word, "}")) {
            (void)cuda__ptx_broken(reader, "an entry has no body");
            return false;
        }
    }
}

/* ---- events */

static cuda__ptx_event finish(cuda__ptx_reader *reader)
{
    if (reader->depth > 0) {
        (void)cuda__ptx_broken(
            reader,
            "the text ends in a body that begins in line %llu: its closing brace "
            "is missing",
            (unsigned long long)reader->body_line);
        return CUDA__PTX_BROKEN;
    }
    if (reader->entry_count == 0) {
        (void)cuda__ptx_broken(reader, "the text has no .entry");
        return CUDA__PTX_BROKEN;
    }
    return CUDA__PTX_END;
}

/* One cuda__token inside or outside of bodies; true when it is an event. */
static bool consume(cuda__ptx_reader *reader, const cuda__token *word, cuda__ptx_event *out_event)
{
    if (cuda__token_is(word, "{")) {
        if (reader->depth++ == 0) {
            reader->body_line = reader->line;
            *out_event = CUDA__PTX_FUNCTION;
            return reader->in_function;
        }
    } else if (cuda__token_is(word, "}")) {
        if (reader->depth == 0) {
            (void)cuda__ptx_broken(reader, "a closing brace has no opening one");
            *out_event = CUDA__PTX_BROKEN;
            return true;
        }
        if (--reader->depth == 0) {
            reader->in_function = false;
        }
    } else if (reader->depth == 0 && cuda__token_is(word, ".func")) {
        reader->in_function = true;
    } else if (reader->depth == 0 && cuda__token_is(word, ";")) {
        reader->in_function = false;
    } else if (reader->depth == 0 && cuda__token_is(word, ".entry")) {
        bool body = false;
        *out_event = CUDA__PTX_BROKEN;
        if (!read_entry(reader, &body)) {
            return true;
        }
        if (body) {
            reader->entry_count++;
            reader->depth = 1;
            reader->body_line = reader->line;
            reader->in_function = true;
            *out_event = CUDA__PTX_ENTRY;
        }
        return body;
    }
    return false;
}

/* Such as atom.global.cas.b32. */
static bool is_swap(const cuda__token *word)
{
    static const char atomic[] = "atom.", swap[] = ".cas";
    if (word->length < sizeof atomic || memcmp(word->text, atomic, sizeof atomic - 1) != 0) {
        return false;
    }
    return memmem(word->text, word->length, swap, sizeof swap - 1) != NULL;
}

cuda__ptx_event cuda__ptx_next(cuda__ptx_reader *reader)
{
    for (;;) {
        cuda__ptx_event event;
        cuda__token word = cuda__ptx_token(reader);
        switch (word.kind) {
        case CUDA__TOKEN_END:
            return finish(reader);
        case CUDA__TOKEN_BROKEN:
            return CUDA__PTX_BROKEN;
        case CUDA__TOKEN_SWITCH:
            if (reader->depth > 0 && reader->in_function) {
                return CUDA__PTX_SWITCH;
            }
            break;
        case CUDA__TOKEN_WORD:
            reader->swaps = reader->swaps || is_swap(&word);
            if (consume(reader, &word, &event)) {
                return event;
            }
            break;
        case CUDA__TOKEN_MARK:
        case CUDA__TOKEN_STRING:
            if (consume(reader, &word, &event)) {
                return event;
            }
            break;
        }
    }
}
