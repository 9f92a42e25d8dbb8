/*
 * vulkan_volk.c - the one place where volk's implementation is compiled. It is given the
 * loader that vulkan_instance.c found at run time, so nothing here is linked against libvulkan.
 */
#define VOLK_IMPLEMENTATION
#include <volk.h>
