/*
 * vulkan_needs.c - what each capability and each extension of SPIR-V needs of a device. What is not
 * in these tables is not enabled by this backend, so code that declares it does not fit.
 */
#include "vulkan_features.h"

#include <spirv/unified1/spirv.h>
#include <string.h>

static const char advice_swap[] = "code that compares and swaps would fit";

#define BIT(feature) VULKAN__BIT(feature)
#define CAP(name, any_of)                                                                          \
    {                                                                                              \
#name, (any_of), SpvCapability##name, 2, NULL                                              \
    }
#define CAP_ADD(name, any_of)                                                                      \
    {                                                                                              \
#name, (any_of), SpvCapability##name, 2, advice_swap                                       \
    }

/* Where a capability stands for buffers and for shared memory, it is buffers that must be served:
 * gradients lie there. */
static const vulkan__need capabilities[] = {
    CAP(Matrix, 0),
    CAP(Shader, 0),
    CAP(InputAttachment, 0),
    CAP(Sampled1D, 0),
    CAP(Image1D, 0),
    CAP(SampledBuffer, 0),
    CAP(ImageBuffer, 0),
    CAP(ImageQuery, 0),
    CAP(DerivativeControl, 0),
    CAP(DeviceGroup, 0),
    CAP(Int64, 0),
    CAP(PhysicalStorageBufferAddresses, 0),
    CAP(Int16, BIT(INT16)),
    CAP(Int8, BIT(INT8)),
    CAP(Float16, BIT(FLOAT16)),
    CAP(Float64, BIT(FLOAT64)),
    CAP(Int64Atomics, BIT(BUFFER_INT64_ATOMICS)),
    CAP(StorageBuffer16BitAccess, BIT(STORAGE16)),
    CAP(UniformAndStorageBuffer16BitAccess, BIT(UNIFORM_STORAGE16)),
    CAP(StoragePushConstant16, BIT(PUSH16)),
    CAP(StorageBuffer8BitAccess, BIT(STORAGE8)),
    CAP(UniformAndStorageBuffer8BitAccess, BIT(UNIFORM_STORAGE8)),
    CAP(StoragePushConstant8, BIT(PUSH8)),
    CAP(VariablePointersStorageBuffer, BIT(VARIABLE_POINTERS_STORAGE)),
    CAP(VariablePointers, BIT(VARIABLE_POINTERS)),
    CAP(VulkanMemoryModel, BIT(MEMORY_MODEL)),
    CAP(VulkanMemoryModelDeviceScope, BIT(MEMORY_MODEL_DEVICE_SCOPE)),
    CAP(GroupNonUniform, BIT(SUBGROUP_BASIC)),
    CAP(GroupNonUniformVote, BIT(SUBGROUP_VOTE)),
    CAP(GroupNonUniformArithmetic, BIT(SUBGROUP_ARITHMETIC)),
    CAP(GroupNonUniformBallot, BIT(SUBGROUP_BALLOT)),
    CAP(GroupNonUniformShuffle, BIT(SUBGROUP_SHUFFLE)),
    CAP(GroupNonUniformShuffleRelative, BIT(SUBGROUP_SHUFFLE_RELATIVE)),
    CAP(GroupNonUniformClustered, BIT(SUBGROUP_CLUSTERED)),
    CAP(GroupNonUniformQuad, BIT(SUBGROUP_QUAD)),
    CAP(GroupNonUniformPartitionedNV, BIT(PARTITIONED)),
    CAP_ADD(AtomicFloat16AddEXT, BIT(BUFFER_FLOAT16_ADD)),
    CAP_ADD(AtomicFloat32AddEXT, BIT(BUFFER_FLOAT32_ADD)),
    CAP_ADD(AtomicFloat64AddEXT, BIT(BUFFER_FLOAT64_ADD)),
    CAP_ADD(AtomicFloat16MinMaxEXT, BIT(BUFFER_FLOAT16_MIN_MAX)),
    CAP_ADD(AtomicFloat32MinMaxEXT, BIT(BUFFER_FLOAT32_MIN_MAX)),
    CAP_ADD(AtomicFloat64MinMaxEXT, BIT(BUFFER_FLOAT64_MIN_MAX)),
    CAP(DotProduct, BIT(DOT_PRODUCT)),
    CAP(DotProductInputAll, BIT(DOT_PRODUCT)),
    CAP(DotProductInput4x8Bit, BIT(DOT_PRODUCT)),
    CAP(DotProductInput4x8BitPacked, BIT(DOT_PRODUCT)),
    CAP(ShaderClockKHR, BIT(SUBGROUP_CLOCK) | BIT(DEVICE_CLOCK)),
    CAP(DenormPreserve, BIT(DENORM_PRESERVE)),
    CAP(DenormFlushToZero, BIT(DENORM_FLUSH)),
    CAP(SignedZeroInfNanPreserve, BIT(SIGNED_ZERO_INF_NAN)),
    CAP(RoundingModeRTE, BIT(ROUNDING_RTE)),
    CAP(RoundingModeRTZ, BIT(ROUNDING_RTZ)),
};

#define EXT(name, any_of, minor)                                                                   \
    {                                                                                              \
        name, (any_of), 0, minor, NULL                                                             \
    }

static const vulkan__need extensions[] = {
    EXT("SPV_KHR_storage_buffer_storage_class", 0, 1),
    EXT("SPV_KHR_variable_pointers", 0, 1),
    EXT("SPV_KHR_16bit_storage", 0, 1),
    EXT("SPV_KHR_device_group", 0, 1),
    EXT("SPV_KHR_8bit_storage", 0, 2),
    EXT("SPV_KHR_physical_storage_buffer", 0, 2),
    EXT("SPV_EXT_physical_storage_buffer", 0, 2),
    EXT("SPV_KHR_vulkan_memory_model", 0, 2),
    EXT("SPV_KHR_float_controls", 0, 2),
    EXT("SPV_KHR_no_integer_wrap_decoration", 0, 2),
    EXT("SPV_EXT_descriptor_indexing", 0, 2),
    EXT("SPV_KHR_non_semantic_info", 0, 3),
    EXT("SPV_KHR_integer_dot_product", BIT(DOT_PRODUCT), 3),
    EXT("SPV_KHR_terminate_invocation", 0, 3),
    EXT("SPV_EXT_demote_to_helper_invocation", 0, 3),
    EXT("SPV_KHR_shader_clock", BIT(SUBGROUP_CLOCK) | BIT(DEVICE_CLOCK), 2),
    EXT("SPV_KHR_subgroup_uniform_control_flow", BIT(UNIFORM_CONTROL_FLOW), 2),
    EXT("SPV_NV_shader_subgroup_partitioned", BIT(PARTITIONED), 2),
    EXT("SPV_GOOGLE_hlsl_functionality1", BIT(GOOGLE_HLSL), 2),
    EXT("SPV_GOOGLE_user_type", BIT(GOOGLE_USER_TYPE), 2),
    EXT("SPV_GOOGLE_decorate_string", BIT(GOOGLE_DECORATE_STRING), 2),
    {"SPV_EXT_shader_atomic_float_add",
     BIT(BUFFER_FLOAT32_ADD) | BIT(SHARED_FLOAT32_ADD) | BIT(BUFFER_FLOAT64_ADD) |
         BIT(SHARED_FLOAT64_ADD),
     0, 2, advice_swap},
    {"SPV_EXT_shader_atomic_float16_add", BIT(BUFFER_FLOAT16_ADD) | BIT(SHARED_FLOAT16_ADD), 0, 2,
     advice_swap},
    {"SPV_EXT_shader_atomic_float_min_max",
     BIT(BUFFER_FLOAT16_MIN_MAX) | BIT(SHARED_FLOAT16_MIN_MAX) | BIT(BUFFER_FLOAT32_MIN_MAX) |
         BIT(SHARED_FLOAT32_MIN_MAX) | BIT(BUFFER_FLOAT64_MIN_MAX) | BIT(SHARED_FLOAT64_MIN_MAX),
     0, 2, advice_swap},
};

const vulkan__need *vulkan__need_of_capability(uint32_t capability)
{
    for (size_t i = 0; i < sizeof capabilities / sizeof capabilities[0]; i++)
        if (capabilities[i].capability == capability)
            return &capabilities[i];
    return NULL;
}

const vulkan__need *vulkan__need_of_extension(const char *name)
{
    for (size_t i = 0; i < sizeof extensions / sizeof extensions[0]; i++)
        if (strcmp(extensions[i].name, name) == 0)
            return &extensions[i];
    return NULL;
}
