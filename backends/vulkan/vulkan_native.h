/*
 * vulkan_native.h - native arguments of existing shaders: where each goes, and what a variant needs
 * to be given them.
 */
#ifndef DDISP_VULKAN_NATIVE_H
#define DDISP_VULKAN_NATIVE_H

#include "backend_native.h"
#include "vulkan_internal.h"
#include "vulkan_spirv.h"

/** Descriptor sets that an entry can use, numbered from 0. */
#define VULKAN__MAX_SETS 8u
/** Bytes of push constants that an entry can use; devices may have less. */
#define VULKAN__MAX_PUSH_BYTES 256u

/** Where one argument goes. */
typedef struct vulkan__native_place {
    bool descriptor;
    uint32_t set;
    uint32_t location;      /* binding, or byte offset */
    uint32_t size_bytes;    /* of a push constant */
    uint32_t element_bytes; /* of the parameter; 0: not known before the launch */
    uint32_t data;          /* of an offset: the argument that is its data's descriptor */
} vulkan__native_place;
#define VULKAN__NO_ARGUMENT UINT32_MAX

/** Where all arguments of an entry go. */
typedef struct vulkan__natives {
    uint32_t count;
    uint32_t push_bytes; /* a multiple of 4 */
    uint32_t set_count;  /* the highest set and 1 */
    uint32_t descriptor_count;
    vulkan__native_place places[BACKEND_MAX_NATIVES];
} vulkan__natives;

/** Places of the declared list, which is checked in itself. CODE_INVALID names the argument. */
ddisp_status vulkan__native_place_all(const ddisp_backend_services *services,
                                      const ddisp_backend_code *code, const ddisp_entry *entry,
                                      vulkan__natives *out_natives);
/** The list against the shader: each argument is there, and each thing it uses is an argument. */
ddisp_status vulkan__native_check(const vulkan__spirv *module, const ddisp_backend_code *code,
                                  const ddisp_entry *entry, const vulkan__entry *found);
/** The device has enough push constants, sets and descriptors. */
ddisp_status vulkan__native_fits(vulkan__device *device, const ddisp_backend_code *code,
                                 const ddisp_entry *entry);

/* ---- which variables an entry uses (vulkan_uses.c) */

/** Marks, in an array of module->bound bytes, the ids that functions reached from the entry name.
 * NULL when the host has no memory. The caller releases it. */
uint8_t *vulkan__spirv_mark_used(const vulkan__spirv *module, const vulkan__entry *entry);

/** A number or address in a block of push constants. */
typedef struct vulkan__leaf {
    uint64_t offset;
    uint32_t size_bytes; /* of all components */
    uint32_t component_bytes;
    enum { VULKAN__LEAF_INTEGER, VULKAN__LEAF_FLOAT, VULKAN__LEAF_ADDRESS } kind;
    uint32_t member; /* of the block that it lies in */
} vulkan__leaf;

/** Leaves of a structure's type, in order; returns how many there are, at most `capacity` of which
 * are written. */
uint32_t vulkan__spirv_leaves(const vulkan__spirv *module, uint32_t type, vulkan__leaf *leaves,
                              uint32_t capacity);
/** Name of a structure's member, or "" where names were stripped. */
void vulkan__spirv_member_name(const vulkan__spirv *module, uint32_t type, uint32_t member,
                               char *text, size_t capacity);

/* ---- descriptors (vulkan_descriptor.c) */

/** Layouts of the sets and of the pipeline; those that exist are in the variant also after a
 * failure. */
ddisp_status vulkan__layouts_create(vulkan__device *device, vulkan__variant *variant);
void vulkan__layouts_destroy(vulkan__device *device, vulkan__variant *variant);
/** Sets for one launch, from pools that live as long as the list. */
ddisp_status vulkan__sets_take(vulkan__device *device, vulkan__sets **list,
                               const vulkan__variant *variant, VkDescriptorSet *out_sets);
/** What a descriptor shows for an argument: the range, from an offset that may be bound. lead:
 * bytes from there to element (0, ..., 0). */
ddisp_status vulkan__descriptor_of(vulkan__device *device, const ddisp_backend_native *native,
                                   uint32_t index, VkDescriptorBufferInfo *out_info,
                                   uint64_t *out_lead);

/* ---- launches (vulkan_native_launch.c) */

/** Arguments of a launch as the device takes them. */
typedef struct vulkan__native_values {
    uint8_t push[VULKAN__MAX_PUSH_BYTES];
    VkDescriptorBufferInfo buffers[BACKEND_MAX_NATIVES];
    uint32_t block_push;       /* byte offset of the block's address, or VULKAN__NO_ARGUMENT */
    uint32_t block_descriptor; /* argument that is the block's descriptor */
    bool wants_block;
} vulkan__native_values;

/** Fills everything but what needs the argument block. Changes nothing else. */
ddisp_status vulkan__native_fill(vulkan__device *device, const ddisp_backend_launch *launch,
                                 vulkan__native_values *out_values);
/** Gives the block's place to a filled list. */
void vulkan__native_block(vulkan__native_values *values, const vulkan__piece *block,
                          uint32_t size_bytes);
/** Writes the sets. */
void vulkan__native_write(vulkan__device *device, const vulkan__variant *variant,
                          const vulkan__native_values *values, const VkDescriptorSet *sets);
/** Records sets, push constants and dispatch; the pipeline is bound. */
void vulkan__native_record(vulkan__device *device, VkCommandBuffer commands,
                           const vulkan__variant *variant, const vulkan__native_values *values,
                           const VkDescriptorSet *sets, const uint32_t grid[3]);

#endif
