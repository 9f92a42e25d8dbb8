/*
 * vulkan_enabled.c - what the application enabled when it made its VkDevice, read from the structs
 * that it handed to vkCreateDevice.
 *
 * In: a pNext chain. Out: this backend's own chain, with every feature that it knows set as the
 * application set it. Features may come in the structs of a version, of an extension, or in those
 * that a version took over; structs that are not known are passed over.
 */
#include "vulkan_features.h"

#include <string.h>

/* Structs that are the same here and there. */
static const struct {
    VkStructureType type;
    size_t offset, size;
} same[] = {
#define SAME(type, member)                                                                         \
    {                                                                                              \
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##type, offsetof(vulkan__feature_chain, member),         \
            sizeof(((vulkan__feature_chain *)NULL)->member)                                        \
    }
    SAME(FEATURES_2, core),
    SAME(VULKAN_1_1_FEATURES, v11),
    SAME(VULKAN_1_2_FEATURES, v12),
    SAME(VULKAN_1_3_FEATURES, v13),
    SAME(SHADER_ATOMIC_FLOAT_FEATURES_EXT, atomic_float),
    SAME(SHADER_ATOMIC_FLOAT_2_FEATURES_EXT, atomic_float2),
    SAME(ROBUSTNESS_2_FEATURES_EXT, robustness2),
    SAME(SHADER_CLOCK_FEATURES_KHR, clock),
    SAME(SHADER_SUBGROUP_UNIFORM_CONTROL_FLOW_FEATURES_KHR, control_flow),
#undef SAME
};

/* Features of structs that a version took over. */
static const struct {
    VkStructureType type;
    size_t source, target; /* offsets of the VkBool32 */
} taken[] = {
#define TAKEN(type, structure, version, member)                                                    \
    {                                                                                              \
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##type, offsetof(VkPhysicalDevice##structure, member),   \
            offsetof(vulkan__feature_chain, version.member)                                        \
    }
    TAKEN(16BIT_STORAGE_FEATURES, 16BitStorageFeatures, v11, storageBuffer16BitAccess),
    TAKEN(16BIT_STORAGE_FEATURES, 16BitStorageFeatures, v11, uniformAndStorageBuffer16BitAccess),
    TAKEN(16BIT_STORAGE_FEATURES, 16BitStorageFeatures, v11, storagePushConstant16),
    TAKEN(VARIABLE_POINTERS_FEATURES, VariablePointersFeatures, v11, variablePointersStorageBuffer),
    TAKEN(VARIABLE_POINTERS_FEATURES, VariablePointersFeatures, v11, variablePointers),
    TAKEN(BUFFER_DEVICE_ADDRESS_FEATURES, BufferDeviceAddressFeatures, v12, bufferDeviceAddress),
    TAKEN(TIMELINE_SEMAPHORE_FEATURES, TimelineSemaphoreFeatures, v12, timelineSemaphore),
    TAKEN(8BIT_STORAGE_FEATURES, 8BitStorageFeatures, v12, storageBuffer8BitAccess),
    TAKEN(8BIT_STORAGE_FEATURES, 8BitStorageFeatures, v12, uniformAndStorageBuffer8BitAccess),
    TAKEN(8BIT_STORAGE_FEATURES, 8BitStorageFeatures, v12, storagePushConstant8),
    TAKEN(SHADER_ATOMIC_INT64_FEATURES, ShaderAtomicInt64Features, v12, shaderBufferInt64Atomics),
    TAKEN(SHADER_ATOMIC_INT64_FEATURES, ShaderAtomicInt64Features, v12, shaderSharedInt64Atomics),
    TAKEN(SHADER_FLOAT16_INT8_FEATURES, ShaderFloat16Int8Features, v12, shaderFloat16),
    TAKEN(SHADER_FLOAT16_INT8_FEATURES, ShaderFloat16Int8Features, v12, shaderInt8),
    TAKEN(SCALAR_BLOCK_LAYOUT_FEATURES, ScalarBlockLayoutFeatures, v12, scalarBlockLayout),
    TAKEN(UNIFORM_BUFFER_STANDARD_LAYOUT_FEATURES, UniformBufferStandardLayoutFeatures, v12,
          uniformBufferStandardLayout),
    TAKEN(SHADER_SUBGROUP_EXTENDED_TYPES_FEATURES, ShaderSubgroupExtendedTypesFeatures, v12,
          shaderSubgroupExtendedTypes),
    TAKEN(VULKAN_MEMORY_MODEL_FEATURES, VulkanMemoryModelFeatures, v12, vulkanMemoryModel),
    TAKEN(VULKAN_MEMORY_MODEL_FEATURES, VulkanMemoryModelFeatures, v12,
          vulkanMemoryModelDeviceScope),
    TAKEN(VULKAN_MEMORY_MODEL_FEATURES, VulkanMemoryModelFeatures, v12,
          vulkanMemoryModelAvailabilityVisibilityChains),
    TAKEN(SHADER_INTEGER_DOT_PRODUCT_FEATURES, ShaderIntegerDotProductFeatures, v13,
          shaderIntegerDotProduct),
    TAKEN(MAINTENANCE_4_FEATURES, Maintenance4Features, v13, maintenance4),
    TAKEN(SUBGROUP_SIZE_CONTROL_FEATURES, SubgroupSizeControlFeatures, v13, subgroupSizeControl),
    TAKEN(SUBGROUP_SIZE_CONTROL_FEATURES, SubgroupSizeControlFeatures, v13, computeFullSubgroups),
    TAKEN(ZERO_INITIALIZE_WORKGROUP_MEMORY_FEATURES, ZeroInitializeWorkgroupMemoryFeatures, v13,
          shaderZeroInitializeWorkgroupMemory),
#undef TAKEN
};

/* Everything behind the head of the struct. */
static void copy_same(const VkBaseInStructure *structure, vulkan__feature_chain *chain)
{
    const size_t head = sizeof(VkBaseOutStructure);
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        if (same[i].type == structure->sType)
            memcpy((unsigned char *)chain + same[i].offset + head,
                   (const unsigned char *)structure + head, same[i].size - head);
}

static void copy_taken(const VkBaseInStructure *structure, vulkan__feature_chain *chain)
{
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (taken[i].type == structure->sType)
            memcpy((unsigned char *)chain + taken[i].target,
                   (const unsigned char *)structure + taken[i].source, sizeof(VkBool32));
}

void vulkan__features_enabled(const void *next, const void *core, uint32_t api_version,
                              uint32_t extensions, vulkan__feature_chain *out_chain)
{
    vulkan__features_link(out_chain, api_version, extensions);
    if (core)
        memcpy(&out_chain->core.features, core, sizeof out_chain->core.features);
    for (const VkBaseInStructure *each = next; each; each = each->pNext) {
        copy_same(each, out_chain);
        copy_taken(each, out_chain);
    }
}

uint32_t vulkan__features_enabled_extensions(const char *const *names, uint32_t count)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; i < count; i++) {
        VkExtensionProperties one = {.extensionName = ""};
        size_t length = names[i] ? strnlen(names[i], sizeof one.extensionName - 1) : 0;
        if (length != 0)
            memcpy(one.extensionName, names[i], length);
        bits |= vulkan__features_extensions(&one, 1);
    }
    return bits;
}
