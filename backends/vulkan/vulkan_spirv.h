/*
 * vulkan_spirv.h - reading a SPIR-V module without trusting it.
 */
#ifndef DDISP_VULKAN_SPIRV_H
#define DDISP_VULKAN_SPIRV_H

#include "backend_support.h"

#include <spirv/unified1/spirv.h>

#include <stdbool.h>

/** A module whose header, instruction lengths, ids and function structure were found sound. */
typedef struct vulkan__spirv {
    const ddisp_backend_services *services;
    const char *kernel_name;
    const uint8_t *bytes; /* the caller's; any alignment */
    uint32_t word_count;
    uint32_t version; /* 0x00010500 for 1.5 */
    uint32_t bound;
    uint32_t *definitions; /* per id: index of the first word of what defines it, 0: nothing */
} vulkan__spirv;

/** One instruction: its first word is at `at`; operand k is word at + k, below at + length. */
typedef struct vulkan__instruction {
    uint32_t at;
    uint32_t opcode;
    uint32_t length; /* 0 before the first */
} vulkan__instruction;

/** An entry point, as the module declares it. */
typedef struct vulkan__entry {
    uint32_t function;
    uint32_t interface_begin; /* words that hold the ids of its variables */
    uint32_t interface_end;
} vulkan__entry;

/** Size of a work group, axis by axis. */
typedef struct vulkan__group {
    bool found;
    bool by_id;          /* LocalSizeId was used */
    uint32_t size[3];    /* literal or default */
    uint32_t spec_id[3]; /* specialization constant, or VULKAN__NO_SPEC_ID */
} vulkan__group;
#define VULKAN__NO_SPEC_ID UINT32_C(0xFFFFFFFF)

/** Kind of a specialization constant. */
typedef enum vulkan__spec {
    VULKAN__SPEC_ABSENT,
    VULKAN__SPEC_SWITCH, /* a boolean or an integer of 32 bits */
    VULKAN__SPEC_OTHER,
} vulkan__spec;

/** OK or CODE_INVALID, OUT_OF_MEMORY. Give back with close, also after a failure. */
ddisp_status vulkan__spirv_open(const ddisp_backend_services *services, const char *kernel_name,
                                const void *bytes, uint64_t size_bytes, vulkan__spirv *out_module);
void vulkan__spirv_close(vulkan__spirv *module);
uint32_t vulkan__spirv_word(const vulkan__spirv *module, uint32_t index);
/** Steps to the next instruction; start with a zeroed one. False at the end. */
bool vulkan__spirv_next(const vulkan__spirv *module, vulkan__instruction *instruction);
/** The instruction that defines an id. False when there is none. */
bool vulkan__spirv_definition(const vulkan__spirv *module, uint32_t id,
                              vulkan__instruction *out_instruction);
/** Copies the string that begins at word `begin`, cut to capacity; returns the word behind it, 0
 * when it is not terminated before `end`. */
uint32_t vulkan__spirv_string(const vulkan__spirv *module, uint32_t begin, uint32_t end, char *text,
                              size_t capacity);
/** Value of a decoration of an id. False when it has none. */
bool vulkan__spirv_decoration(const vulkan__spirv *module, uint32_t id, SpvDecoration decoration,
                              uint32_t *out_value);
/** The same for a member of a structure's type. */
bool vulkan__spirv_member_decoration(const vulkan__spirv *module, uint32_t type, uint32_t member,
                                     SpvDecoration decoration, uint32_t *out_value);
/** Finds a compute entry point. In name, "{mask}" stands for any decimal number. */
bool vulkan__spirv_entry(const vulkan__spirv *module, const char *name, vulkan__entry *out_entry);
/** True when the entry can use the variable. Before SPIR-V 1.4 entries do not say: then true. */
bool vulkan__spirv_uses(const vulkan__spirv *module, const vulkan__entry *entry, uint32_t variable);
vulkan__group vulkan__spirv_group(const vulkan__spirv *module, const vulkan__entry *entry);
vulkan__spec vulkan__spirv_spec(const vulkan__spirv *module, uint32_t spec_id);
/** Bytes of a type as laid out in a block; 0 when unknown. */
uint64_t vulkan__spirv_type_bytes(const vulkan__spirv *module, uint32_t type);

#endif
