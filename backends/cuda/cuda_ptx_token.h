/*
 * cuda_ptx_token.h - tokens of PTX text, between cuda_ptx_token.c and cuda_ptx_reader.c.
 */
#ifndef DDISP_CUDA_PTX_TOKEN_H
#define DDISP_CUDA_PTX_TOKEN_H

#include "cuda_ptx.h"

typedef enum cuda__token_kind {
    CUDA__TOKEN_END,
    CUDA__TOKEN_BROKEN, /* reader.why says what is wrong */
    CUDA__TOKEN_WORD,   /* letters, digits, and _ $ % . */
    CUDA__TOKEN_MARK,   /* any other single character */
    CUDA__TOKEN_STRING,
    CUDA__TOKEN_SWITCH, /* reader.switch_index, reader.switch_offset */
} cuda__token_kind;

typedef struct cuda__token {
    cuda__token_kind kind;
    const char *text;
    uint64_t length;
} cuda__token;

cuda__token cuda__ptx_token(cuda__ptx_reader *reader);
/** Writes reader->why, with the line, and returns CUDA__TOKEN_BROKEN. */
__attribute__((format(printf, 2, 3))) cuda__token_kind cuda__ptx_broken(cuda__ptx_reader *reader,
                                                                        const char *format, ...);
/** A word or mark of exactly this text. */
bool cuda__token_is(const cuda__token *word, const char *text);
/** A word that is a decimal number of up to ten digits. */
bool cuda__token_number(const cuda__token *word, uint64_t *out_value);

#endif
