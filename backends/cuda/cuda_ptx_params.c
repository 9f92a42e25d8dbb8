/*
 * cuda_ptx_params.c - the parameters of one entry of PTX text: how large each is, and what kind as
 * far as it can be told.
 *
 * In: an entry that cuda_ptx_reader.c found in well-formed text. Out: sizes and kinds. PTX writes
 * pointers as 64-bit numbers; one whose value goes straight into cvta.to.global is an address for
 * certain. Nothing is concluded from what is absent.
 */
#include "cuda_ptx_token.h"

#include <string.h>

/* While parameters are read. */
typedef struct scan {
    cuda__ptx_reader reader;
    cuda__param *params;
    uint32_t capacity, count;
    cuda__token names[CUDA__MAX_PARAMS];
    cuda__token registers[CUDA__MAX_PARAMS]; /* that hold a parameter's value now */
} scan;

static bool same(const cuda__token *a, const cuda__token *b)
{
    return a->length == b->length && a->length > 0 && memcmp(a->text, b->text, a->length) == 0;
}

static bool ended(const cuda__token *word)
{
    return word->kind == CUDA__TOKEN_END || word->kind == CUDA__TOKEN_BROKEN;
}

/* ---- declarations */

static void read_type(const cuda__token *word, cuda__param *param)
{
    static const struct {
        char name[6];
        uint8_t bytes;
        cuda__param_kind kind;
    } types[] = {
        {".u8", 1, CUDA__PARAM_INTEGER},  {".s8", 1, CUDA__PARAM_INTEGER},
        {".u16", 2, CUDA__PARAM_INTEGER}, {".s16", 2, CUDA__PARAM_INTEGER},
        {".u32", 4, CUDA__PARAM_INTEGER}, {".s32", 4, CUDA__PARAM_INTEGER},
        {".u64", 8, CUDA__PARAM_INTEGER}, {".s64", 8, CUDA__PARAM_INTEGER},
        {".f16", 2, CUDA__PARAM_FLOAT},   {".f32", 4, CUDA__PARAM_FLOAT},
        {".f64", 8, CUDA__PARAM_FLOAT},   {".b8", 1, CUDA__PARAM_BYTES},
        {".b16", 2, CUDA__PARAM_BYTES},   {".b32", 4, CUDA__PARAM_BYTES},
        {".b64", 8, CUDA__PARAM_BYTES},   {".b128", 16, CUDA__PARAM_BYTES},
    };
    if (cuda__token_is(word, ".ptr")) {
        param->kind = CUDA__PARAM_ADDRESS;
        return;
    }
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (cuda__token_is(word, types[i].name)) {
            param->size_bytes = types[i].bytes;
            param->kind = types[i].kind;
        }
    }
}

static void read_declarations(scan *self)
{
    cuda__token word = cuda__ptx_token(&self->reader);
    uint64_t number;
    if (!cuda__token_is(&word, "(")) {
        return;
    }
    for (word = cuda__ptx_token(&self->reader); !ended(&word) && !cuda__token_is(&word, ")");
         word = cuda__ptx_token(&self->reader)) {
        if (cuda__token_is(&word, ".param")) {
            if (self->count == self->capacity) {
                return;
            }
            self->params[self->count++] = (cuda__param){0};
        } else if (self->count == 0) {
            continue;
        } else if (cuda__token_is(&word, "[")) {
            word = cuda__ptx_token(&self->reader);
            if (cuda__token_number(&word, &number)) {
                self->params[self->count - 1].size_bytes *= number;
            }
            self->params[self->count - 1].kind = CUDA__PARAM_BYTES;
        } else if (word.kind == CUDA__TOKEN_WORD && word.text[0] == '.') {
            read_type(&word, &self->params[self->count - 1]);
        } else if (word.kind == CUDA__TOKEN_WORD && !cuda__token_number(&word, &number)) {
            self->names[self->count - 1] = word;
        }
    }
}

/* ---- use */

/* The register no longer holds a parameter. */
static void forget(scan *self, const cuda__token *word)
{
    for (uint32_t i = 0; i < self->count; i++) {
        if (same(&self->registers[i], word)) {
            self->registers[i].length = 0;
        }
    }
}

/* After the first operand of a load: ", [name]" of a parameter. */
static void load(scan *self, const cuda__token *target)
{
    cuda__token comma = cuda__ptx_token(&self->reader);
    cuda__token open = cuda__ptx_token(&self->reader);
    cuda__token name = cuda__ptx_token(&self->reader);
    cuda__token close = cuda__ptx_token(&self->reader);
    if (!cuda__token_is(&comma, ",") || !cuda__token_is(&open, "[") ||
        !cuda__token_is(&close, "]")) {
        return;
    }
    for (uint32_t i = 0; i < self->count; i++) {
        if (same(&self->names[i], &name)) {
            self->registers[i] = *target;
        }
    }
}

/* After the opcode of an instruction. */
static void instruction(scan *self, const cuda__token *opcode)
{
    cuda__ptx_reader before = self->reader;
    cuda__token target = cuda__ptx_token(&self->reader);
    if (cuda__token_is(opcode, "cvta.to.global.u64")) {
        (void)cuda__ptx_token(&self->reader); /* comma */
        cuda__token source = cuda__ptx_token(&self->reader);
        for (uint32_t i = 0; i < self->count; i++) {
            if (same(&self->registers[i], &source)) {
                self->params[i].kind = CUDA__PARAM_ADDRESS;
            }
        }
    }
    if (target.kind == CUDA__TOKEN_WORD) {
        forget(self, &target);
    }
    if (cuda__token_is(opcode, "ld.param.u64") || cuda__token_is(opcode, "ld.param.b64")) {
        load(self, &target);
    } else if (cuda__token_is(&target, "{")) { /* several targets */
        for (cuda__token word = cuda__ptx_token(&self->reader);
             !ended(&word) && !cuda__token_is(&word, "}"); word = cuda__ptx_token(&self->reader)) {
            forget(self, &word);
        }
    } else {
        self->reader = before;
    }
}

static void read_body(scan *self)
{
    uint32_t depth = 0;
    bool first = false; /* of a statement */
    for (;;) {
        cuda__token word = cuda__ptx_token(&self->reader);
        if (ended(&word) || (depth == 0 && cuda__token_is(&word, ";"))) {
            return;
        }
        if (cuda__token_is(&word, "{")) {
            depth++;
            first = true;
        } else if (cuda__token_is(&word, "}")) {
            if (--depth == 0) {
                return;
            }
            first = true;
        } else if (cuda__token_is(&word, ";") || cuda__token_is(&word, ":")) {
            first = true;
        } else if (cuda__token_is(&word, "@")) { /* a predicate stands before the opcode */
            word = cuda__ptx_token(&self->reader);
            if (cuda__token_is(&word, "!")) {
                (void)cuda__ptx_token(&self->reader);
            }
        } else if (first && depth > 0 && word.kind == CUDA__TOKEN_WORD) {
            instruction(self, &word);
            first = false;
        }
    }
}

uint32_t cuda__ptx_params(const void *bytes, uint64_t size_bytes, const cuda__ptx_entry *entry,
                          cuda__param *params, uint32_t capacity)
{
    scan self = {.params = params};
    self.capacity = capacity < CUDA__MAX_PARAMS ? capacity : CUDA__MAX_PARAMS;
    self.reader.text = bytes;
    self.reader.length = size_bytes;
    self.reader.at = (uint64_t)(entry->name - self.reader.text) + entry->name_length;
    read_declarations(&self);
    read_body(&self);
    return self.count;
}
