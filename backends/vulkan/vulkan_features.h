/*
 * vulkan_features.h - the features and extensions that the backend knows, and the SPIR-V that needs
 * them.
 */
#ifndef DDISP_VULKAN_FEATURES_H
#define DDISP_VULKAN_FEATURES_H

#include <volk.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Bits of ddisp_device_info.features: what decides which SPIR-V fits. Append only. */
enum {
    VULKAN__FEATURE_INT16,
    VULKAN__FEATURE_INT8,
    VULKAN__FEATURE_FLOAT16,
    VULKAN__FEATURE_FLOAT64,
    VULKAN__FEATURE_STORAGE16,
    VULKAN__FEATURE_UNIFORM_STORAGE16,
    VULKAN__FEATURE_PUSH16,
    VULKAN__FEATURE_STORAGE8,
    VULKAN__FEATURE_UNIFORM_STORAGE8,
    VULKAN__FEATURE_PUSH8,
    VULKAN__FEATURE_VARIABLE_POINTERS_STORAGE,
    VULKAN__FEATURE_VARIABLE_POINTERS,
    VULKAN__FEATURE_BUFFER_INT64_ATOMICS,
    VULKAN__FEATURE_SHARED_INT64_ATOMICS,
    VULKAN__FEATURE_MEMORY_MODEL,
    VULKAN__FEATURE_MEMORY_MODEL_DEVICE_SCOPE,
    VULKAN__FEATURE_DOT_PRODUCT,
    VULKAN__FEATURE_MAINTENANCE4,
    VULKAN__FEATURE_BUFFER_FLOAT32_ADD,
    VULKAN__FEATURE_BUFFER_FLOAT64_ADD,
    VULKAN__FEATURE_SHARED_FLOAT32_ADD,
    VULKAN__FEATURE_SHARED_FLOAT64_ADD,
    VULKAN__FEATURE_BUFFER_FLOAT16_ADD,
    VULKAN__FEATURE_SHARED_FLOAT16_ADD,
    VULKAN__FEATURE_BUFFER_FLOAT16_MIN_MAX,
    VULKAN__FEATURE_BUFFER_FLOAT32_MIN_MAX,
    VULKAN__FEATURE_BUFFER_FLOAT64_MIN_MAX,
    VULKAN__FEATURE_SHARED_FLOAT16_MIN_MAX,
    VULKAN__FEATURE_SHARED_FLOAT32_MIN_MAX,
    VULKAN__FEATURE_SHARED_FLOAT64_MIN_MAX,
    VULKAN__FEATURE_NULL_DESCRIPTOR,
    VULKAN__FEATURE_SUBGROUP_CLOCK,
    VULKAN__FEATURE_DEVICE_CLOCK,
    VULKAN__FEATURE_UNIFORM_CONTROL_FLOW,
    VULKAN__FEATURE_PARTITIONED,
    VULKAN__FEATURE_GOOGLE_HLSL,
    VULKAN__FEATURE_GOOGLE_USER_TYPE,
    VULKAN__FEATURE_GOOGLE_DECORATE_STRING,
    VULKAN__FEATURE_SUBGROUP_BASIC,
    VULKAN__FEATURE_SUBGROUP_VOTE,
    VULKAN__FEATURE_SUBGROUP_ARITHMETIC,
    VULKAN__FEATURE_SUBGROUP_BALLOT,
    VULKAN__FEATURE_SUBGROUP_SHUFFLE,
    VULKAN__FEATURE_SUBGROUP_SHUFFLE_RELATIVE,
    VULKAN__FEATURE_SUBGROUP_CLUSTERED,
    VULKAN__FEATURE_SUBGROUP_QUAD,
    VULKAN__FEATURE_DENORM_PRESERVE,
    VULKAN__FEATURE_DENORM_FLUSH,
    VULKAN__FEATURE_SIGNED_ZERO_INF_NAN,
    VULKAN__FEATURE_ROUNDING_RTE,
    VULKAN__FEATURE_ROUNDING_RTZ,
    VULKAN__FEATURE_COUNT,
    VULKAN__FEATURE_NO_BIT = 64, /* enabled where present, decides nothing */
};

#define VULKAN__BIT(feature) (UINT64_C(1) << VULKAN__FEATURE_##feature)

/** Every structure that features are asked with. The same is used for the question and for opening.
 */
typedef struct vulkan__feature_chain {
    VkPhysicalDeviceFeatures2 core;
    VkPhysicalDeviceVulkan11Features v11;
    VkPhysicalDeviceVulkan12Features v12;
    VkPhysicalDeviceVulkan13Features v13;
    VkPhysicalDeviceShaderAtomicFloatFeaturesEXT atomic_float;
    VkPhysicalDeviceShaderAtomicFloat2FeaturesEXT atomic_float2;
    VkPhysicalDeviceRobustness2FeaturesEXT robustness2;
    VkPhysicalDeviceShaderClockFeaturesKHR clock;
    VkPhysicalDeviceShaderSubgroupUniformControlFlowFeaturesKHR control_flow;
} vulkan__feature_chain;

/** Bits of the extension table that the list holds. */
uint32_t vulkan__features_extensions(const VkExtensionProperties *list, uint32_t count);
/** Links the chain for a device of that version with those extensions; all features false. */
void vulkan__features_link(vulkan__feature_chain *chain, uint32_t api_version, uint32_t extensions);
/** Bits of a chain that the driver filled, with those that properties give. */
uint64_t vulkan__features_read(const vulkan__feature_chain *chain, uint32_t extensions,
                               const VkPhysicalDeviceVulkan11Properties *properties11,
                               const VkPhysicalDeviceVulkan12Properties *properties12);
/** Fills another chain with those features of a filled one that this backend enables. */
void vulkan__features_want(const vulkan__feature_chain *have, uint32_t api_version,
                           uint32_t extensions, vulkan__feature_chain *out_chain);
/** Fills a chain with what the application enabled: its pNext chain, and its
 * VkPhysicalDeviceFeatures (NULL: none). */
void vulkan__features_enabled(const void *next, const void *core, uint32_t api_version,
                              uint32_t extensions, vulkan__feature_chain *out_chain);
/** Bits of the extension table that names hold. */
uint32_t vulkan__features_enabled_extensions(const char *const *names, uint32_t count);
/** Whether host memory can be made device memory. */
bool vulkan__features_import_host_memory(uint32_t extensions);
/** Names of the extensions to enable; returns how many (at most 16). */
uint32_t vulkan__features_extension_names(uint32_t extensions, const char *names[16]);
/** Missing requirement in words, or NULL. */
const char *vulkan__features_required(const vulkan__feature_chain *chain);
/** Name of a feature bit, and the extension it comes from ("" for core). */
const char *vulkan__feature_name(uint32_t feature, const char **out_extension);

/** What a capability or an extension of SPIR-V needs: any one of the bits; 0: nothing. */
typedef struct vulkan__need {
    const char *name;
    uint64_t any_of;
    uint32_t capability;    /* of capabilities */
    uint32_t minor_version; /* Vulkan 1.x that it needs */
    const char *advice;     /* what would fit instead, or NULL */
} vulkan__need;
/** NULL for unknown ones. */
const vulkan__need *vulkan__need_of_capability(uint32_t capability);
const vulkan__need *vulkan__need_of_extension(const char *name);

#endif
