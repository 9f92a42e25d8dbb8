/*
 * vulkan_spirv.c - reads a SPIR-V module that may be truncated or random: header, lengths, ids and
 * the bracket structure of functions are checked once, so that the questions of vulkan_reflect.c
 * can be asked without fear. It knows no driver. That what lies inside functions is meaningful is
 * not checked: that is the compiler's duty, as everywhere in Vulkan.
 */
/* The header tells which instructions define an id, as an inline function; here it is compiled. */
#define SPV_ENABLE_UTILITY_CODE
#define SpvHasResultAndType vulkan__spirv_has_result
#include "vulkan_spirv.h"

#include <string.h>

extern void vulkan__spirv_has_result(SpvOp opcode, bool *has_result, bool *has_type);

#define HEADER_WORDS 5u
#define MOST_IDS     UINT32_C(0x400000) /* the specification's limit on a module's ids */

static ddisp_status invalid(const vulkan__spirv *module, uint32_t at, const char *what)
{
    return backend_fail(module->services, DDISP_STATUS_CODE_INVALID, 0,
                        "kernel %s: the SPIR-V is malformed at word %u of %u: %s",
                        module->kernel_name, at, module->word_count, what);
}

uint32_t vulkan__spirv_word(const vulkan__spirv *module, uint32_t index)
{
    uint32_t word;
    memcpy(&word, module->bytes + (size_t)index * sizeof word, sizeof word);
    return word;
}

bool vulkan__spirv_next(const vulkan__spirv *module, vulkan__instruction *instruction)
{
    uint32_t at = instruction->length ? instruction->at + instruction->length : HEADER_WORDS;
    if (at >= module->word_count)
        return false;
    uint32_t word = vulkan__spirv_word(module, at);
    instruction->at = at;
    instruction->opcode = word & SpvOpCodeMask;
    instruction->length = word >> SpvWordCountShift;
    return instruction->length != 0 && instruction->length <= module->word_count - at;
}

bool vulkan__spirv_definition(const vulkan__spirv *module, uint32_t id,
                              vulkan__instruction *out_instruction)
{
    if (id >= module->bound || module->definitions[id] == 0)
        return false;
    out_instruction->at = module->definitions[id];
    uint32_t word = vulkan__spirv_word(module, out_instruction->at);
    out_instruction->opcode = word & SpvOpCodeMask;
    out_instruction->length = word >> SpvWordCountShift;
    return true;
}

uint32_t vulkan__spirv_string(const vulkan__spirv *module, uint32_t begin, uint32_t end, char *text,
                              size_t capacity)
{
    size_t length = 0;
    for (uint32_t index = begin; index < end; index++) {
        uint32_t word = vulkan__spirv_word(module, index);
        for (int i = 0; i < 4; i++) {
            char letter = (char)(word >> (8 * i) & 0xFF);
            if (length < capacity)
                text[length] = letter;
            if (letter == 0)
                return index + 1;
            length++;
            if (length == capacity)
                text[capacity - 1] = 0;
        }
    }
    return 0;
}

/** Words that an instruction must have so that it can be read here. */
static uint32_t shortest(uint32_t opcode)
{
    switch (opcode) {
    case SpvOpCapability:
    case SpvOpExtension:
    case SpvOpTypeStruct:
        return 2;
    case SpvOpDecorate:
    case SpvOpExecutionMode:
    case SpvOpExecutionModeId:
    case SpvOpTypeFloat:
        return 3;
    case SpvOpEntryPoint:
    case SpvOpMemberDecorate:
    case SpvOpTypeInt:
    case SpvOpTypeVector:
    case SpvOpTypeMatrix:
    case SpvOpTypeArray:
    case SpvOpTypePointer:
    case SpvOpConstant:
    case SpvOpSpecConstant:
    case SpvOpVariable:
    case SpvOpFunctionCall:
        return 4;
    case SpvOpFunction:
        return 5;
    default:
        return 1;
    }
}

/** Notes what the instruction defines. NULL, or what is wrong with it. */
static const char *define(vulkan__spirv *module, const vulkan__instruction *instruction)
{
    bool has_result = false, has_type = false;
    vulkan__spirv_has_result((SpvOp)instruction->opcode, &has_result, &has_type);
    uint32_t needs = 1u + (has_result ? 1u : 0u) + (has_type ? 1u : 0u);
    if (instruction->length < needs || instruction->length < shortest(instruction->opcode))
        return "an instruction is shorter than its operands";
    if (has_type) {
        uint32_t type = vulkan__spirv_word(module, instruction->at + 1);
        if (type == 0 || type >= module->bound)
            return "a type's id is not below the bound";
    }
    if (!has_result)
        return NULL;
    uint32_t id = vulkan__spirv_word(module, instruction->at + (has_type ? 2 : 1));
    if (id == 0 || id >= module->bound)
        return "an id is not below the bound";
    if (module->definitions[id])
        return "an id is defined twice";
    module->definitions[id] = instruction->at;
    return NULL;
}

/** Walks the module: every instruction lies inside, ids are defined once, functions end. */
static ddisp_status check_structure(vulkan__spirv *module)
{
    vulkan__instruction instruction = {0};
    uint32_t end = HEADER_WORDS;
    bool in_function = false;
    while (vulkan__spirv_next(module, &instruction)) {
        const char *wrong = define(module, &instruction);
        end = instruction.at + instruction.length;
        char text[4];
        if (!wrong && instruction.opcode == SpvOpFunction) {
            wrong = in_function ? "a function begins inside another" : NULL;
            in_function = true;
        } else if (!wrong && instruction.opcode == SpvOpFunctionEnd) {
            wrong = in_function ? NULL : "a function ends that did not begin";
            in_function = false;
        } else if (!wrong && (instruction.opcode == SpvOpEntryPoint ||
                              instruction.opcode == SpvOpExtension)) {
            uint32_t begin = instruction.at + (instruction.opcode == SpvOpEntryPoint ? 3 : 1);
            if (!vulkan__spirv_string(module, begin, end, text, sizeof text))
                wrong = "a string does not end";
        }
        if (wrong)
            return invalid(module, instruction.at, wrong);
    }
    if (end != module->word_count)
        return invalid(module, end, "an instruction has no length, or reaches beyond the end");
    if (in_function)
        return invalid(module, end, "the last function does not end; the code is truncated");
    return DDISP_STATUS_OK;
}

static bool is_function(const vulkan__spirv *module, uint32_t id)
{
    vulkan__instruction definition;
    return vulkan__spirv_definition(module, id, &definition) && definition.opcode == SpvOpFunction;
}

/** Every function that is entered or called is there. */
static ddisp_status check_functions(vulkan__spirv *module)
{
    vulkan__instruction instruction = {0};
    while (vulkan__spirv_next(module, &instruction)) {
        uint32_t function = 0;
        if (instruction.opcode == SpvOpEntryPoint)
            function = vulkan__spirv_word(module, instruction.at + 2);
        else if (instruction.opcode == SpvOpFunctionCall)
            function = vulkan__spirv_word(module, instruction.at + 3);
        else
            continue;
        if (!is_function(module, function))
            return invalid(module, instruction.at,
                           "a function that is entered or called is missing; the code is "
                           "truncated");
    }
    return DDISP_STATUS_OK;
}

static ddisp_status check_header(vulkan__spirv *module, uint64_t size_bytes)
{
    if (size_bytes < HEADER_WORDS * 4 || size_bytes % 4 != 0 || size_bytes / 4 > UINT32_MAX)
        return backend_fail(module->services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: the SPIR-V has %llu bytes; it must have a header of 20 and "
                            "be a multiple of 4",
                            module->kernel_name, (unsigned long long)size_bytes);
    uint32_t magic = vulkan__spirv_word(module, 0);
    if (magic != SpvMagicNumber)
        return backend_fail(module->services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: not SPIR-V: it begins with 0x%08x instead of 0x%08x%s",
                            module->kernel_name, magic, SpvMagicNumber,
                            magic == __builtin_bswap32(SpvMagicNumber)
                                ? " (the bytes of each word are swapped)"
                                : "");
    module->version = vulkan__spirv_word(module, 1);
    module->bound = vulkan__spirv_word(module, 3);
    if ((module->version & 0xFF0000FFu) || module->version >> 16 != 1)
        return backend_fail(module->services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: 0x%08x is no version of SPIR-V 1", module->kernel_name,
                            module->version);
    if (module->bound == 0 || module->bound > MOST_IDS)
        return backend_fail(module->services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: the SPIR-V's bound of ids is %u, it must be 1 to %u",
                            module->kernel_name, module->bound, MOST_IDS);
    if (vulkan__spirv_word(module, 4) != 0)
        return invalid(module, 4, "the schema is not 0");
    return DDISP_STATUS_OK;
}

ddisp_status vulkan__spirv_open(const ddisp_backend_services *services, const char *kernel_name,
                                const void *bytes, uint64_t size_bytes, vulkan__spirv *out_module)
{
    vulkan__spirv *module = out_module;
    memset(module, 0, sizeof *module);
    module->services = services;
    module->kernel_name = kernel_name;
    module->bytes = bytes;
    module->word_count = (uint32_t)(size_bytes / 4);
    ddisp_status status = check_header(module, size_bytes);
    if (status != DDISP_STATUS_OK)
        return status;
    module->definitions =
        backend_allocate(services, (uint64_t)module->bound * sizeof *module->definitions);
    if (!module->definitions)
        return backend_fail(services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "kernel %s: no host memory for %u ids of SPIR-V", kernel_name,
                            module->bound);
    status = check_structure(module);
    if (status == DDISP_STATUS_OK)
        status = check_functions(module);
    return status;
}

void vulkan__spirv_close(vulkan__spirv *module)
{
    backend_release(module->services, module->definitions);
    module->definitions = NULL;
}
