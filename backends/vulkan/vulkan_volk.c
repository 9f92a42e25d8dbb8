/*
 * vulkan_volk.c - the one place where volk's implementation is compiled. volk finds libvulkan.so.1
 * with dlopen, so nothing here is linked against it, and it stays loaded for the life of the
 * process.
 */
#define VOLK_IMPLEMENTATION
#include <volk.h>
