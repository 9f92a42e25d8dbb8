/*
 * host_native.c - existing C functions: any list of addresses and numbers, called once per launch
 * through libffi.
 *
 * In: a function and its declared arguments. Out: a call description, made once, and operations
 * that make the call with the values of their launch. Without libffi every such code is refused by
 * name.
 */
#include "backend_native.h"
#include "host_internal.h"

#if HOST_HAVE_FFI
#include <ffi.h>

struct host_native {
    ddisp_host_function function; /* of any type */
    backend_native_places places;
    ffi_cif call;
    ffi_type *types[BACKEND_MAX_NATIVES];
};

typedef struct native_operation {
    host_operation operation;
    host_native *native;
    uint64_t values[BACKEND_MAX_NATIVES]; /* by position */
    _Alignas(16) unsigned char block[];
} native_operation;

/* The C type of a scalar; NULL for those that C has none for. */
static ffi_type *scalar_type(ddisp_dtype dtype)
{
    switch (dtype) {
    case DDISP_DTYPE_BOOL:
    case DDISP_DTYPE_U8:
        return &ffi_type_uint8;
    case DDISP_DTYPE_I8:
        return &ffi_type_sint8;
    case DDISP_DTYPE_U16:
        return &ffi_type_uint16;
    case DDISP_DTYPE_I16:
        return &ffi_type_sint16;
    case DDISP_DTYPE_U32:
        return &ffi_type_uint32;
    case DDISP_DTYPE_I32:
        return &ffi_type_sint32;
    case DDISP_DTYPE_U64:
        return &ffi_type_uint64;
    case DDISP_DTYPE_I64:
        return &ffi_type_sint64;
    case DDISP_DTYPE_F32:
        return &ffi_type_float;
    case DDISP_DTYPE_F64:
        return &ffi_type_double;
    default:
        return NULL;
    }
}

static ffi_type *type_of(const ddisp_backend_code *code, const ddisp_native_arg *arg)
{
    if (backend_native_is_address(arg->source)) {
        return &ffi_type_pointer;
    }
    if (arg->source == DDISP_SOURCE_SCALAR) {
        return scalar_type(code->params[arg->param].dtype);
    }
    if (arg->source == DDISP_SOURCE_STRIDE) {
        return backend_native_size(code, arg) == 4 ? &ffi_type_sint32 : &ffi_type_sint64;
    }
    return backend_native_size(code, arg) == 4 ? &ffi_type_uint32 : &ffi_type_uint64;
}

ddisp_status host__native_check(const ddisp_backend_services *services,
                                const ddisp_backend_code *code, const ddisp_entry *entry)
{
    backend_native_places places;
    ddisp_status status = backend_native_place(services, code, entry, &places);
    for (uint32_t i = 0; i < entry->native_count && status == DDISP_STATUS_OK; i++) {
        if (!type_of(code, &entry->native[i])) {
            status = backend_native_fail(services, code, entry, i,
                                         "has a dtype that C functions do not take; declare the "
                                         "scalar f32");
        }
    }
    return status;
}

ddisp_status host__native_make(const ddisp_backend_services *services,
                               const ddisp_backend_code *code, const ddisp_entry *entry,
                               ddisp_host_function function, host_native **out_native)
{
    host_native *native = backend_allocate(services, sizeof *native);
    if (!native) {
        return backend_fail(services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "host: no memory for a call of kernel %s (%zu bytes)",
                            code->kernel_name, sizeof *native);
    }
    native->function = function;
    ddisp_status status = backend_native_place(services, code, entry, &native->places);
    for (uint32_t i = 0; i < entry->native_count && status == DDISP_STATUS_OK; i++) {
        native->types[native->places.position[i]] = type_of(code, &entry->native[i]);
    }
    if (status == DDISP_STATUS_OK &&
        ffi_prep_cif(&native->call, FFI_DEFAULT_ABI, entry->native_count, &ffi_type_void,
                     native->types) != FFI_OK) {
        status = backend_fail(services, DDISP_STATUS_UNSUPPORTED, 0,
                              "kernel %s: libffi cannot make a call with these %u arguments",
                              code->kernel_name, entry->native_count);
    }
    if (status != DDISP_STATUS_OK) {
        backend_release(services, native);
        return status;
    }
    *out_native = native;
    return DDISP_STATUS_OK;
}

static void call(const host_native *native, uint64_t *values)
{
    void *pointers[BACKEND_MAX_NATIVES];
    for (uint32_t i = 0; i < native->places.count; i++) {
        pointers[i] = &values[i];
    }
    ffi_cif description = native->call; /* its type lacks the const */
    ffi_call(&description, (void (*)(void))native->function, NULL, pointers);
}

/* Values by position; the argument block, where its address is asked for, lies at block. */
static ddisp_status fill(const host_device *device, const ddisp_backend_launch *launch,
                         const void *block, uint64_t *values)
{
    const host_variant *variant = launch->variant;
    for (uint32_t i = 0; i < launch->native_count; i++) {
        const ddisp_backend_native *native = &launch->natives[i];
        bool is_block = native->arg->source == DDISP_SOURCE_BLOCK;
        ddisp_status status = backend_native_fits(device->services, native, i);
        if (status != DDISP_STATUS_OK) {
            return status;
        }
        values[variant->native->places.position[i]] =
            is_block ? (uint64_t)(uintptr_t)block : native->value;
    }
    return DDISP_STATUS_OK;
}

ddisp_status host__native_call(host_device *device, const ddisp_backend_launch *launch)
{
    const host_variant *variant = launch->variant;
    uint64_t values[BACKEND_MAX_NATIVES];
    ddisp_status status = fill(device, launch, launch->block, values);
    if (status == DDISP_STATUS_OK) {
        call(variant->native, values);
    }
    return status;
}

static void run_native(host_device *device, host_operation *operation)
{
    native_operation *own = (native_operation *)operation;
    call(own->native, own->values);
    host__operation_done(device, operation);
}

ddisp_status host__native_operation(host_device *device, const ddisp_backend_launch *launch,
                                    host_operation **out_operation)
{
    const host_variant *variant = launch->variant;
    const size_t size_bytes = sizeof(native_operation) + launch->block_size_bytes;
    native_operation *own = backend_allocate(device->services, size_bytes);
    if (!own) {
        return backend_fail(device->services, DDISP_STATUS_OUT_OF_MEMORY, 0,
                            "host: no memory to queue a launch (%zu bytes)", size_bytes);
    }
    own->operation.run = run_native;
    own->operation.is_launch = true;
    own->native = variant->native;
    if (launch->block) {
        memcpy(own->block, launch->block, launch->block_size_bytes);
    }
    ddisp_status status = fill(device, launch, own->block, own->values);
    if (status != DDISP_STATUS_OK) {
        backend_release(device->services, own);
        return status;
    }
    *out_operation = &own->operation;
    return DDISP_STATUS_OK;
}

#else

ddisp_status host__native_check(const ddisp_backend_services *services,
                                const ddisp_backend_code *code, const ddisp_entry *entry)
{
    return backend_fail(services, DDISP_STATUS_UNSUPPORTED, 0,
                        "kernel %s: an entry takes %u native arguments, and this build of the host "
                        "backend cannot call such functions: it was made without libffi",
                        code->kernel_name, entry->native_count);
}

ddisp_status host__native_make(const ddisp_backend_services *services,
                               const ddisp_backend_code *code, const ddisp_entry *entry,
                               ddisp_host_function function, host_native **out_native)
{
    (void)function;
    (void)out_native;
    return host__native_check(services, code, entry);
}

ddisp_status host__native_operation(host_device *device, const ddisp_backend_launch *launch,
                                    host_operation **out_operation)
{
    (void)launch;
    (void)out_operation;
    return backend_fail(device->services, DDISP_STATUS_UNSUPPORTED, 0, "host: made without libffi");
}

ddisp_status host__native_call(host_device *device, const ddisp_backend_launch *launch)
{
    return host__native_operation(device, launch, NULL);
}

#endif

void host__native_release(const ddisp_backend_services *services, host_native *native)
{
    backend_release(services, native);
}
