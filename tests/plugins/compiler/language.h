/*
 * language.h - between the compiler plugin's backend and its language.
 */
#ifndef DDISP_TESTS_COMPILER_LANGUAGE_H
#define DDISP_TESTS_COMPILER_LANGUAGE_H

#include <diffdispatch/backend.h>
#include <diffdispatch/device/ddisp_block.h>

#include <stdbool.h>

#define LANGUAGE_OPS     64
#define LANGUAGE_MESSAGE 200

enum op_kind {
    OP_NUMBER,
    OP_DATA,
    OP_UPSTREAM,
    OP_SCALAR,
    OP_ADD,
    OP_SUBTRACT,
    OP_MULTIPLY,
    OP_STORE,
    OP_ADD_GRADIENT,
    OP_DROP,
};

struct op {
    uint32_t kind;
    uint32_t index;
    double value;
};

/** A compiled entry: also the bytes of an artifact. */
struct program {
    char magic[8]; /* "RPN 1" */
    uint32_t op_count;
    uint32_t depth; /* most values on the stack */
    struct op ops[LANGUAGE_OPS];
};

/**
 * Compiles an entry. switches: bit k is clear when ">>k" compiles to nothing. out_gradients: bit k
 * is set when ">>k" is in the source. False with a message.
 */
bool language_compile(const ddisp_code *code, const char *entry, uint64_t switches,
                      struct program *out_program, uint64_t *out_gradients,
                      char message[LANGUAGE_MESSAGE]);
/** These are the bytes of a program. */
bool language_check(const void *bytes, uint64_t size_bytes, struct program *out_program);
void language_run(const struct program *program, const ddisp_block *block, uint64_t items);

#endif
