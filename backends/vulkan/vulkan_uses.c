/*
 * vulkan_uses.c - two questions about a SPIR-V module that native arguments ask: which ids the
 * functions name that an entry reaches, and which numbers and addresses lie at which bytes of a
 * block. Operands are not trusted: ids are compared with the bound, recursion is bounded.
 */
#include "vulkan_native.h"

#define DEEPEST_TYPE 16
#define MOST_STEPS   4096u /* types looked at, whatever a module nests */

/* ---- use ---- */

static void mark(const vulkan__spirv *module, uint8_t *marks, const vulkan__instruction *i,
                 uint32_t from, uint32_t to)
{
    for (uint32_t k = from; k < to && k < i->length; k++) {
        uint32_t id = vulkan__spirv_word(module, i->at + k);
        if (id < module->bound)
            marks[id] = 1;
    }
}

/** Marks what an instruction names, and not its literals, which are numbers that might be ids. */
static void mark_operands(const vulkan__spirv *module, uint8_t *marks, const vulkan__instruction *i)
{
    switch (i->opcode) {
    case SpvOpLine:
    case SpvOpNoLine:
    case SpvOpCompositeExtract:
    case SpvOpCompositeInsert:
    case SpvOpVectorShuffle:
    case SpvOpSwitch:
    case SpvOpBranchConditional:
    case SpvOpSelectionMerge:
    case SpvOpLoopMerge:
        return;
    case SpvOpLoad:
    case SpvOpArrayLength:
        mark(module, marks, i, 3, 4);
        return;
    case SpvOpStore:
    case SpvOpCopyMemory:
        mark(module, marks, i, 1, 3);
        return;
    default:
        mark(module, marks, i, 1, i->length);
    }
}

/** Marks the functions that are reached; true when there were new ones. */
static bool mark_calls(const vulkan__spirv *module, uint8_t *reached)
{
    vulkan__instruction i = {0};
    uint32_t function = 0;
    bool found = false;
    while (vulkan__spirv_next(module, &i)) {
        if (i.opcode == SpvOpFunction)
            function = vulkan__spirv_word(module, i.at + 2);
        if (i.opcode != SpvOpFunctionCall || !reached[function])
            continue;
        uint32_t called = vulkan__spirv_word(module, i.at + 3);
        if (called < module->bound && !reached[called])
            reached[called] = found = true;
    }
    return found;
}

uint8_t *vulkan__spirv_mark_used(const vulkan__spirv *module, const vulkan__entry *entry)
{
    uint8_t *reached = backend_allocate(module->services, module->bound);
    uint8_t *used = backend_allocate(module->services, module->bound);
    vulkan__instruction i = {0};
    uint32_t function = 0;
    if (!reached || !used) {
        backend_release(module->services, reached);
        backend_release(module->services, used);
        return NULL;
    }
    if (entry->function < module->bound)
        reached[entry->function] = 1;
    while (mark_calls(module, reached)) {
    }
    while (vulkan__spirv_next(module, &i)) {
        if (i.opcode == SpvOpFunction)
            function = vulkan__spirv_word(module, i.at + 2);
        if (function && reached[function])
            mark_operands(module, used, &i);
    }
    backend_release(module->services, reached);
    return used;
}

/* ---- blocks ---- */

typedef struct walk {
    const vulkan__spirv *module;
    vulkan__leaf *leaves;
    uint32_t capacity, count;
    uint32_t member, steps;
} walk;

static void add_leaf(walk *w, uint64_t offset, uint32_t component_bytes, uint32_t components,
                     int kind)
{
    if (w->count < w->capacity)
        w->leaves[w->count] = (vulkan__leaf){.offset = offset,
                                             .size_bytes = component_bytes * components,
                                             .component_bytes = component_bytes,
                                             .kind = kind,
                                             .member = w->member};
    w->count++;
}

static void visit(walk *w, uint32_t type, uint64_t offset, int depth);

static void visit_struct(walk *w, const vulkan__instruction *type, uint64_t offset, int depth)
{
    uint32_t id = vulkan__spirv_word(w->module, type->at + 1);
    for (uint32_t member = 0; member + 2 < type->length; member++) {
        uint32_t at = 0;
        (void)vulkan__spirv_member_decoration(w->module, id, member, SpvDecorationOffset, &at);
        if (depth == DEEPEST_TYPE)
            w->member = member;
        visit(w, vulkan__spirv_word(w->module, type->at + 2 + member), offset + at, depth - 1);
    }
}

static void visit_array(walk *w, const vulkan__instruction *type, uint64_t offset, int depth)
{
    uint32_t stride = 0;
    vulkan__instruction length;
    (void)vulkan__spirv_decoration(w->module, vulkan__spirv_word(w->module, type->at + 1),
                                   SpvDecorationArrayStride, &stride);
    if (!vulkan__spirv_definition(w->module, vulkan__spirv_word(w->module, type->at + 3),
                                  &length) ||
        length.opcode != SpvOpConstant)
        return;
    uint32_t count = vulkan__spirv_word(w->module, length.at + 3);
    for (uint32_t k = 0; k < count && w->count <= w->capacity; k++) {
        uint32_t before = w->count;
        visit(w, vulkan__spirv_word(w->module, type->at + 2), offset + (uint64_t)k * stride,
              depth - 1);
        if (w->count == before)
            return; /* of nothing that is known */
    }
}

/** Vectors are one leaf, so that two 32-bit numbers can be given as one of 64 bits. */
static void visit_vector(walk *w, const vulkan__instruction *type, uint64_t offset)
{
    vulkan__instruction component;
    uint32_t id = vulkan__spirv_word(w->module, type->at + 2);
    if (!vulkan__spirv_definition(w->module, id, &component) ||
        (component.opcode != SpvOpTypeInt && component.opcode != SpvOpTypeFloat))
        return;
    add_leaf(w, offset, (uint32_t)vulkan__spirv_type_bytes(w->module, id),
             vulkan__spirv_word(w->module, type->at + 3),
             component.opcode == SpvOpTypeInt ? VULKAN__LEAF_INTEGER : VULKAN__LEAF_FLOAT);
}

static void visit(walk *w, uint32_t type, uint64_t offset, int depth)
{
    vulkan__instruction definition;
    if (depth == 0 || w->steps++ >= MOST_STEPS ||
        !vulkan__spirv_definition(w->module, type, &definition))
        return;
    uint32_t bytes = (uint32_t)vulkan__spirv_type_bytes(w->module, type);
    switch (definition.opcode) {
    case SpvOpTypeInt:
        add_leaf(w, offset, bytes, 1, VULKAN__LEAF_INTEGER);
        return;
    case SpvOpTypeFloat:
        add_leaf(w, offset, bytes, 1, VULKAN__LEAF_FLOAT);
        return;
    case SpvOpTypePointer:
        add_leaf(w, offset, 8, 1, VULKAN__LEAF_ADDRESS);
        return;
    case SpvOpTypeVector:
        visit_vector(w, &definition, offset);
        return;
    case SpvOpTypeArray:
        visit_array(w, &definition, offset, depth);
        return;
    case SpvOpTypeStruct:
        visit_struct(w, &definition, offset, depth);
        return;
    default:
        return;
    }
}

uint32_t vulkan__spirv_leaves(const vulkan__spirv *module, uint32_t type, vulkan__leaf *leaves,
                              uint32_t capacity)
{
    walk w = {.module = module, .leaves = leaves, .capacity = capacity};
    visit(&w, type, 0, DEEPEST_TYPE);
    return w.count;
}

void vulkan__spirv_member_name(const vulkan__spirv *module, uint32_t type, uint32_t member,
                               char *text, size_t capacity)
{
    vulkan__instruction i = {0};
    text[0] = 0;
    while (vulkan__spirv_next(module, &i) && i.opcode != SpvOpFunction) {
        if (i.opcode != SpvOpMemberName || i.length < 4 ||
            vulkan__spirv_word(module, i.at + 1) != type ||
            vulkan__spirv_word(module, i.at + 2) != member)
            continue;
        if (!vulkan__spirv_string(module, i.at + 3, i.at + i.length, text, capacity))
            text[0] = 0;
        return;
    }
}
