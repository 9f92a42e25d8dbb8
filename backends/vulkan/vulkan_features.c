/*
 * vulkan_features.c - the one list of features and extensions: what is asked of a device, what is
 * enabled when it is opened, and which bit of its description each becomes. A feature that SPIR-V
 * of users may need is added here (and in vulkan_needs.c the capability that needs it).
 */
#include "vulkan_features.h"

#include <string.h>

/* Extensions; a bit of adapter->extensions is an index here. */
enum {
    EXTENSION_ATOMIC_FLOAT,
    EXTENSION_ATOMIC_FLOAT2,
    EXTENSION_ROBUSTNESS2,
    EXTENSION_CLOCK,
    EXTENSION_CONTROL_FLOW,
    EXTENSION_PARTITIONED,
    EXTENSION_GOOGLE_HLSL,
    EXTENSION_GOOGLE_USER_TYPE,
    EXTENSION_GOOGLE_DECORATE_STRING,
    EXTENSION_HOST_MEMORY,
    EXTENSION_COUNT,
    EXTENSION_NONE = 32,
};

typedef struct extension {
    const char *name;
    size_t offset; /* of its structure in the chain; 0: it has none */
    VkStructureType type;
} extension;

static const extension extensions_known[EXTENSION_COUNT] = {
    [EXTENSION_ATOMIC_FLOAT] = {VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME,
                                offsetof(vulkan__feature_chain, atomic_float),
                                VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT},
    [EXTENSION_ATOMIC_FLOAT2] =
        {VK_EXT_SHADER_ATOMIC_FLOAT_2_EXTENSION_NAME,
         offsetof(vulkan__feature_chain, atomic_float2),
         VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_2_FEATURES_EXT},
    [EXTENSION_ROBUSTNESS2] = {VK_EXT_ROBUSTNESS_2_EXTENSION_NAME,
                               offsetof(vulkan__feature_chain, robustness2),
                               VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ROBUSTNESS_2_FEATURES_EXT},
    [EXTENSION_CLOCK] = {VK_KHR_SHADER_CLOCK_EXTENSION_NAME, offsetof(vulkan__feature_chain, clock),
                         VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CLOCK_FEATURES_KHR},
    [EXTENSION_CONTROL_FLOW] =
        {VK_KHR_SHADER_SUBGROUP_UNIFORM_CONTROL_FLOW_EXTENSION_NAME,
         offsetof(vulkan__feature_chain, control_flow),
         VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SUBGROUP_UNIFORM_CONTROL_FLOW_FEATURES_KHR},
    [EXTENSION_PARTITIONED] = {VK_NV_SHADER_SUBGROUP_PARTITIONED_EXTENSION_NAME, 0,
                               VK_STRUCTURE_TYPE_MAX_ENUM},
    [EXTENSION_GOOGLE_HLSL] = {VK_GOOGLE_HLSL_FUNCTIONALITY1_EXTENSION_NAME, 0,
                               VK_STRUCTURE_TYPE_MAX_ENUM},
    [EXTENSION_GOOGLE_USER_TYPE] = {VK_GOOGLE_USER_TYPE_EXTENSION_NAME, 0,
                                    VK_STRUCTURE_TYPE_MAX_ENUM},
    [EXTENSION_HOST_MEMORY] = {VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME, 0,
                               VK_STRUCTURE_TYPE_MAX_ENUM},
    [EXTENSION_GOOGLE_DECORATE_STRING] = {VK_GOOGLE_DECORATE_STRING_EXTENSION_NAME, 0,
                                          VK_STRUCTURE_TYPE_MAX_ENUM},
};

typedef struct feature {
    uint32_t bit;
    uint32_t extension;
    size_t offset; /* of the VkBool32; 0: the extension alone */
    const char *name;
} feature;

#define CORE(bit, member)                                                                          \
    {                                                                                              \
        VULKAN__FEATURE_##bit, EXTENSION_NONE,                                                     \
            offsetof(vulkan__feature_chain, core.features.member), #member                         \
    }
#define V(version, bit, member)                                                                    \
    {                                                                                              \
        VULKAN__FEATURE_##bit, EXTENSION_NONE, offsetof(vulkan__feature_chain, version.member),    \
            #member                                                                                \
    }
#define EXT(extension, bit, structure, member)                                                     \
    {                                                                                              \
        VULKAN__FEATURE_##bit, EXTENSION_##extension,                                              \
            offsetof(vulkan__feature_chain, structure.member), #member                             \
    }
#define ALONE(extension, bit, name)                                                                \
    {                                                                                              \
        VULKAN__FEATURE_##bit, EXTENSION_##extension, 0, name                                      \
    }

static const feature features_known[] = {
    CORE(NO_BIT, shaderInt64),
    CORE(NO_BIT, sparseBinding),
    CORE(NO_BIT, sparseResidencyBuffer),
    CORE(NO_BIT, sparseResidencyAliased),
    CORE(INT16, shaderInt16),
    CORE(FLOAT64, shaderFloat64),
    V(v11, STORAGE16, storageBuffer16BitAccess),
    V(v11, UNIFORM_STORAGE16, uniformAndStorageBuffer16BitAccess),
    V(v11, PUSH16, storagePushConstant16),
    V(v11, VARIABLE_POINTERS_STORAGE, variablePointersStorageBuffer),
    V(v11, VARIABLE_POINTERS, variablePointers),
    V(v12, NO_BIT, bufferDeviceAddress),
    V(v12, NO_BIT, timelineSemaphore),
    V(v12, STORAGE8, storageBuffer8BitAccess),
    V(v12, UNIFORM_STORAGE8, uniformAndStorageBuffer8BitAccess),
    V(v12, PUSH8, storagePushConstant8),
    V(v12, BUFFER_INT64_ATOMICS, shaderBufferInt64Atomics),
    V(v12, SHARED_INT64_ATOMICS, shaderSharedInt64Atomics),
    V(v12, FLOAT16, shaderFloat16),
    V(v12, INT8, shaderInt8),
    V(v12, NO_BIT, scalarBlockLayout),
    V(v12, NO_BIT, uniformBufferStandardLayout),
    V(v12, NO_BIT, shaderSubgroupExtendedTypes),
    V(v12, MEMORY_MODEL, vulkanMemoryModel),
    V(v12, MEMORY_MODEL_DEVICE_SCOPE, vulkanMemoryModelDeviceScope),
    V(v12, NO_BIT, vulkanMemoryModelAvailabilityVisibilityChains),
    V(v13, DOT_PRODUCT, shaderIntegerDotProduct),
    V(v13, MAINTENANCE4, maintenance4),
    V(v13, NO_BIT, subgroupSizeControl),
    V(v13, NO_BIT, computeFullSubgroups),
    V(v13, NO_BIT, shaderZeroInitializeWorkgroupMemory),
    EXT(ATOMIC_FLOAT, NO_BIT, atomic_float, shaderBufferFloat32Atomics),
    EXT(ATOMIC_FLOAT, BUFFER_FLOAT32_ADD, atomic_float, shaderBufferFloat32AtomicAdd),
    EXT(ATOMIC_FLOAT, NO_BIT, atomic_float, shaderBufferFloat64Atomics),
    EXT(ATOMIC_FLOAT, BUFFER_FLOAT64_ADD, atomic_float, shaderBufferFloat64AtomicAdd),
    EXT(ATOMIC_FLOAT, NO_BIT, atomic_float, shaderSharedFloat32Atomics),
    EXT(ATOMIC_FLOAT, SHARED_FLOAT32_ADD, atomic_float, shaderSharedFloat32AtomicAdd),
    EXT(ATOMIC_FLOAT, NO_BIT, atomic_float, shaderSharedFloat64Atomics),
    EXT(ATOMIC_FLOAT, SHARED_FLOAT64_ADD, atomic_float, shaderSharedFloat64AtomicAdd),
    EXT(ATOMIC_FLOAT2, NO_BIT, atomic_float2, shaderBufferFloat16Atomics),
    EXT(ATOMIC_FLOAT2, BUFFER_FLOAT16_ADD, atomic_float2, shaderBufferFloat16AtomicAdd),
    EXT(ATOMIC_FLOAT2, BUFFER_FLOAT16_MIN_MAX, atomic_float2, shaderBufferFloat16AtomicMinMax),
    EXT(ATOMIC_FLOAT2, BUFFER_FLOAT32_MIN_MAX, atomic_float2, shaderBufferFloat32AtomicMinMax),
    EXT(ATOMIC_FLOAT2, BUFFER_FLOAT64_MIN_MAX, atomic_float2, shaderBufferFloat64AtomicMinMax),
    EXT(ATOMIC_FLOAT2, NO_BIT, atomic_float2, shaderSharedFloat16Atomics),
    EXT(ATOMIC_FLOAT2, SHARED_FLOAT16_ADD, atomic_float2, shaderSharedFloat16AtomicAdd),
    EXT(ATOMIC_FLOAT2, SHARED_FLOAT16_MIN_MAX, atomic_float2, shaderSharedFloat16AtomicMinMax),
    EXT(ATOMIC_FLOAT2, SHARED_FLOAT32_MIN_MAX, atomic_float2, shaderSharedFloat32AtomicMinMax),
    EXT(ATOMIC_FLOAT2, SHARED_FLOAT64_MIN_MAX, atomic_float2, shaderSharedFloat64AtomicMinMax),
    EXT(ROBUSTNESS2, NULL_DESCRIPTOR, robustness2, nullDescriptor),
    EXT(CLOCK, SUBGROUP_CLOCK, clock, shaderSubgroupClock),
    EXT(CLOCK, DEVICE_CLOCK, clock, shaderDeviceClock),
    EXT(CONTROL_FLOW, UNIFORM_CONTROL_FLOW, control_flow, shaderSubgroupUniformControlFlow),
    ALONE(PARTITIONED, PARTITIONED, "partitioned subgroup operations"),
    ALONE(GOOGLE_HLSL, GOOGLE_HLSL, "the extension"),
    ALONE(GOOGLE_USER_TYPE, GOOGLE_USER_TYPE, "the extension"),
    ALONE(GOOGLE_DECORATE_STRING, GOOGLE_DECORATE_STRING, "the extension"),
};
#define FEATURES_KNOWN (sizeof features_known / sizeof features_known[0])

/* Features that are properties: subgroup operations of compute shaders. */
static const struct {
    VkSubgroupFeatureFlagBits operation;
    uint32_t bit;
    const char *name;
} operations_known[] = {
    {VK_SUBGROUP_FEATURE_BASIC_BIT, VULKAN__FEATURE_SUBGROUP_BASIC, "subgroup basics"},
    {VK_SUBGROUP_FEATURE_VOTE_BIT, VULKAN__FEATURE_SUBGROUP_VOTE, "subgroup votes"},
    {VK_SUBGROUP_FEATURE_ARITHMETIC_BIT, VULKAN__FEATURE_SUBGROUP_ARITHMETIC,
     "subgroup arithmetic"},
    {VK_SUBGROUP_FEATURE_BALLOT_BIT, VULKAN__FEATURE_SUBGROUP_BALLOT, "subgroup ballots"},
    {VK_SUBGROUP_FEATURE_SHUFFLE_BIT, VULKAN__FEATURE_SUBGROUP_SHUFFLE, "subgroup shuffles"},
    {VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT, VULKAN__FEATURE_SUBGROUP_SHUFFLE_RELATIVE,
     "relative subgroup shuffles"},
    {VK_SUBGROUP_FEATURE_CLUSTERED_BIT, VULKAN__FEATURE_SUBGROUP_CLUSTERED,
     "clustered subgroup operations"},
    {VK_SUBGROUP_FEATURE_QUAD_BIT, VULKAN__FEATURE_SUBGROUP_QUAD, "subgroup quads"},
};
#define OPERATIONS_KNOWN (sizeof operations_known / sizeof operations_known[0])

static VkBool32 *value_of(vulkan__feature_chain *chain, size_t offset)
{
    return (VkBool32 *)(void *)((unsigned char *)chain + offset);
}

static VkBool32 value_at(const vulkan__feature_chain *chain, size_t offset)
{
    VkBool32 value;
    memcpy(&value, (const unsigned char *)chain + offset, sizeof value);
    return value;
}

uint32_t vulkan__features_extensions(const VkExtensionProperties *list, uint32_t count)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < EXTENSION_COUNT; k++)
            if (strcmp(list[i].extensionName, extensions_known[k].name) == 0)
                bits |= UINT32_C(1) << k;
    return bits;
}

static void link_structure(VkBaseOutStructure **tail, void *structure, VkStructureType type)
{
    VkBaseOutStructure *next = structure;
    next->sType = type;
    next->pNext = NULL;
    (*tail)->pNext = next;
    *tail = next;
}

void vulkan__features_link(vulkan__feature_chain *chain, uint32_t api_version, uint32_t extensions)
{
    memset(chain, 0, sizeof *chain);
    chain->core.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    VkBaseOutStructure *tail = (VkBaseOutStructure *)(void *)&chain->core;
    link_structure(&tail, &chain->v11, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
    link_structure(&tail, &chain->v12, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
    if (api_version >= VK_API_VERSION_1_3)
        link_structure(&tail, &chain->v13, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES);
    for (uint32_t k = 0; k < EXTENSION_COUNT; k++)
        if ((extensions >> k & 1) && extensions_known[k].offset != 0)
            link_structure(&tail, (unsigned char *)chain + extensions_known[k].offset,
                           extensions_known[k].type);
}

uint64_t vulkan__features_read(const vulkan__feature_chain *chain, uint32_t extensions,
                               const VkPhysicalDeviceVulkan11Properties *properties11,
                               const VkPhysicalDeviceVulkan12Properties *properties12)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < FEATURES_KNOWN; i++) {
        const feature *known = &features_known[i];
        bool present = known->offset ? value_at(chain, known->offset) != VK_FALSE
                                     : (extensions >> known->extension & 1) != 0;
        if (present && known->bit != VULKAN__FEATURE_NO_BIT)
            bits |= UINT64_C(1) << known->bit;
    }
    if (properties11->subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT)
        for (size_t i = 0; i < OPERATIONS_KNOWN; i++)
            if (properties11->subgroupSupportedOperations & operations_known[i].operation)
                bits |= UINT64_C(1) << operations_known[i].bit;
    const VkPhysicalDeviceVulkan12Properties *p = properties12;
    if (p->shaderDenormPreserveFloat16 || p->shaderDenormPreserveFloat32 ||
        p->shaderDenormPreserveFloat64)
        bits |= VULKAN__BIT(DENORM_PRESERVE);
    if (p->shaderDenormFlushToZeroFloat16 || p->shaderDenormFlushToZeroFloat32 ||
        p->shaderDenormFlushToZeroFloat64)
        bits |= VULKAN__BIT(DENORM_FLUSH);
    if (p->shaderSignedZeroInfNanPreserveFloat16 || p->shaderSignedZeroInfNanPreserveFloat32 ||
        p->shaderSignedZeroInfNanPreserveFloat64)
        bits |= VULKAN__BIT(SIGNED_ZERO_INF_NAN);
    if (p->shaderRoundingModeRTEFloat16 || p->shaderRoundingModeRTEFloat32 ||
        p->shaderRoundingModeRTEFloat64)
        bits |= VULKAN__BIT(ROUNDING_RTE);
    if (p->shaderRoundingModeRTZFloat16 || p->shaderRoundingModeRTZFloat32 ||
        p->shaderRoundingModeRTZFloat64)
        bits |= VULKAN__BIT(ROUNDING_RTZ);
    return bits;
}

void vulkan__features_want(const vulkan__feature_chain *have, uint32_t api_version,
                           uint32_t extensions, vulkan__feature_chain *out_chain)
{
    vulkan__features_link(out_chain, api_version, extensions);
    for (size_t i = 0; i < FEATURES_KNOWN; i++)
        if (features_known[i].offset && value_at(have, features_known[i].offset))
            *value_of(out_chain, features_known[i].offset) = VK_TRUE;
}

bool vulkan__features_import_host_memory(uint32_t extensions)
{
    return (extensions >> EXTENSION_HOST_MEMORY & 1) != 0;
}

uint32_t vulkan__features_extension_names(uint32_t extensions, const char *names[16])
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < EXTENSION_COUNT; k++)
        if (extensions >> k & 1)
            names[count++] = extensions_known[k].name;
    return count;
}

const char *vulkan__features_required(const vulkan__feature_chain *chain)
{
    if (!chain->v12.bufferDeviceAddress)
        return "bufferDeviceAddress";
    if (!chain->v12.timelineSemaphore)
        return "timelineSemaphore";
    if (!chain->core.features.shaderInt64)
        return "shaderInt64";
    return NULL;
}

const char *vulkan__feature_name(uint32_t bit, const char **out_extension)
{
    *out_extension = "";
    for (size_t i = 0; i < OPERATIONS_KNOWN; i++)
        if (operations_known[i].bit == bit)
            return operations_known[i].name;
    for (size_t i = 0; i < FEATURES_KNOWN; i++) {
        if (features_known[i].bit != bit)
            continue;
        if (features_known[i].extension != EXTENSION_NONE)
            *out_extension = extensions_known[features_known[i].extension].name;
        return features_known[i].name;
    }
    return "float controls";
}
