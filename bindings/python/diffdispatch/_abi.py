"""Constants, structs and functions of the C ABI. Made by tools/api-json from the headers; not edited by hand."""
import ctypes as C
import enum

API_VERSION = "0.1.0"

BLOCK_ABI = 1
DEVICE_TENSOR_REQUIRES_GRAD = 1
DEVICE_TENSOR_HAS_UPSTREAM = 2
DEVICE_TENSOR_SHADOW = 4
DEVICE_TENSOR_BOUND = 8
DEVICE_TENSOR_DENSE = 16
DEVICE_TENSOR_ADD_DENSE = 32
DEVICE_TENSOR_READ_DENSE = 64
VERSION_MAJOR = 0
VERSION_MINOR = 1
VERSION_PATCH = 0
CONTEXT_DETERMINISTIC = 1
DEVICE_FLAG_SOFTWARE = 1
DEVICE_FLAG_HOST_ADDRESSES = 2
DEVICE_FLAG_NULL_DESCRIPTOR = 4
DEVICE_FLAG_FAKE = 8
TIMEOUT_INFINITE = 18446744073709551615
EVENT_TIMED = 1
MAX_RANK = 8
TENSOR_REQUIRES_GRAD = 1
TENSOR_READ_ONLY = 2
TENSOR_GRAD_SAME_DTYPE = 4
VIEW_REQUIRES_GRAD = 1
VIEW_READ_ONLY = 2
ACCUMULATE_DETERMINISTIC = 1
ACCUMULATE_CHECKED = 2
ACCUMULATE_EXCLUSIVE = 4
MAX_PARAMS = 64
RANK_ANY = 4294967295
PARAM_DIFFERENTIABLE = 1
PARAM_ITEMS = 2
LAYOUT_DENSE = 1
LAYOUT_STRIDED = 2
LAYOUT_BROADCAST = 4
LAYOUT_ANY = 7
SPIRV_SWITCH_BASE = 1024
NATIVE_LOCATION = 1
ENTRY_MASKED = 1
ENTRY_LOOPS = 2
CODE_NULL_SAFE = 1
CODE_BORROWED = 2
CODE_ANY_LAYOUT = 4
CODE_PRE_REDUCES = 8
CODE_DETERMINISTIC = 16
CHAIN_CUDA_DEVICE = 1073807361
DLPACK_WRITE_COPY = 4294967296
LAUNCH_ZERO_UPSTREAM = 1
LAUNCH_KEEP_UPSTREAM = 2
LAUNCH_OVERWRITE = 4
LAUNCH_NO_ALLOC = 8
LAUNCH_DRY_RUN = 16
LAUNCH_DETERMINISTIC = 32
BOUND_EVERY_PARAM = 4294967295
REPORT_SLOT_MADE = 1
REPORT_SLOT_TAKEN = 2
REPORT_SLOT_FILLED = 4
REPORT_SLOT_UNDEFINED = 8
REPORT_SLOT_CONVERTED = 16
SIGNATURE_CAPACITY = 2024
SIGNATURE_HAS_ADD = 1
SIGNATURE_REQUIRES_GRAD = 2
SIGNATURE_HAS_READ = 4
SIGNATURE_UPSTREAM = 8
SIGNATURE_OVERLAPS = 16
SIGNATURE_ADD_OVERLAPS = 32
SIGNATURE_READ_OVERLAPS = 64
CHAIN_VULKAN_NEEDS = 1073872897
CHAIN_VULKAN_DEVICE = 1073872898
CHAIN_VULKAN_BUFFER = 1073872899
VULKAN_MAX_EXTENSIONS = 32


class Status(enum.IntEnum):
    """Result of a call. Values are stable and append-only; docs/errors.md has a cause and a cure for each."""

    OK = 0
    INVALID_ARGUMENT = 1
    OUT_OF_MEMORY = 2
    OUT_OF_DEVICE_MEMORY = 3
    UNSUPPORTED = 4
    NOT_FOUND = 5
    NO_GRADIENT = 6
    MISSING_GRADIENT = 7
    GRADIENT_REJECTED = 8
    ALIASED = 9
    DTYPE_MISMATCH = 10
    RANK_MISMATCH = 11
    SHAPE_MISMATCH = 12
    LAYOUT_MISMATCH = 13
    DEVICE_MISMATCH = 14
    OVERFLOW = 15
    LIMIT_EXCEEDED = 16
    CODE_INVALID = 17
    CODE_REJECTED = 18
    NO_CODE = 19
    DEVICE_LOST = 20
    DRIVER_ERROR = 21
    TIMEOUT = 22
    NOT_READY = 23
    BACKEND_UNAVAILABLE = 24
    INCOMPATIBLE = 25
    FORKED = 26
    READ_ONLY = 27
    BUFFER_TOO_SMALL = 28
    INTERNAL = 29
    BOUND_EXCEEDED = 30


class LogLevel(enum.IntEnum):
    """Level of a log message; a context passes on messages up to its own level."""

    DEFAULT = 0
    NONE = 1
    ERROR = 2
    WARNING = 3
    INFO = 4
    DEBUG = 5


class Support(enum.IntEnum):
    """How a device offers an operation."""

    NONE = 0
    EMULATED = 1
    NATIVE = 2


class DType(enum.IntEnum):
    """Type of an element. Differentiable: F16, BF16, F32, F64."""

    ANY = 0
    BOOL = 1
    U8 = 2
    I8 = 3
    U16 = 4
    I16 = 5
    U32 = 6
    I32 = 7
    U64 = 8
    I64 = 9
    F16 = 10
    BF16 = 11
    F32 = 12
    F64 = 13


class GradState(enum.IntEnum):
    """State of a gradient."""

    NONE = 0
    EMPTY = 1
    PRESENT = 2


class Mode(enum.IntEnum):
    """What a launch computes."""

    FORWARD = 1
    BACKWARD = 2


class ParamKind(enum.IntEnum):
    """Kind of a parameter."""

    TENSOR = 0
    SCALAR = 1


class Access(enum.IntEnum):
    """What a forward launch does with a tensor."""

    IN = 1
    OUT = 2
    INOUT = 3


class WriteMode(enum.IntEnum):
    """How a code writes a gradient that it adds to."""

    ATOMIC_ADD = 0
    PLAIN_ADD = 1
    STORE_ONCE = 2
    READS_BACK = 3
    UNKNOWN = 4


class Source(enum.IntEnum):
    """Where a native argument is filled from."""

    DATA = 1
    GRAD_ADD = 2
    GRAD_READ = 3
    SHAPE = 4
    STRIDE = 5
    NUMEL = 6
    OFFSET = 7
    SCALAR = 8
    ITEMS = 9
    BLOCK = 10


class Space(enum.IntEnum):
    """Where a native argument goes."""

    DEFAULT = 0
    DESCRIPTOR = 1
    PUSH_CONSTANT = 2


class Policy(enum.IntEnum):
    """What backs the add slot of a frozen input."""

    DEFAULT = 0
    AUTO = 1
    SPECIALIZE = 2
    GUARD = 3
    SINK = 4
    SCRATCH = 5
    REJECT = 6


class Backing(enum.IntEnum):
    """What a gradient slot was given."""

    NONE = 0
    REAL = 1
    OMITTED = 2
    NULL = 3
    SINK = 4
    SCRATCH = 5
    ZERO = 6
    SHADOW = 7


class Skip(enum.IntEnum):
    """Why nothing was launched."""

    NONE = 0
    NO_GRADIENT = 1
    ZERO_UPSTREAM = 2
    NO_ITEMS = 3
    DRY_RUN = 4
    FAILED = 5


class VariantOrigin(enum.IntEnum):
    """How the variant was come by."""

    NONE = 0
    HIT = 1
    BUILT = 2
    LOADED = 3


class ddisp_block(C.Structure):
    pass


class ddisp_device_tensor(C.Structure):
    pass


class ddisp_error(C.Structure):
    pass


class ddisp_allocator(C.Structure):
    pass


class ddisp_chain(C.Structure):
    pass


class ddisp_context_desc(C.Structure):
    pass


class ddisp_backend_info(C.Structure):
    pass


class ddisp_device_info(C.Structure):
    pass


class ddisp_device_statistics(C.Structure):
    pass


class ddisp_tensor_info(C.Structure):
    pass


class ddisp_tensor_view(C.Structure):
    pass


class ddisp_accumulate_options(C.Structure):
    pass


class ddisp_param(C.Structure):
    pass


class ddisp_code_param(C.Structure):
    pass


class ddisp_native_arg(C.Structure):
    pass


class ddisp_entry(C.Structure):
    pass


class ddisp_header(C.Structure):
    pass


class ddisp_code(C.Structure):
    pass


class ddisp_kernel_desc(C.Structure):
    pass


class ddisp_kernel_statistics(C.Structure):
    pass


class ddisp_cuda_device_desc(C.Structure):
    pass


class ddisp_arg(C.Structure):
    pass


class ddisp_bound(C.Structure):
    pass


class ddisp_launch_options(C.Structure):
    pass


class ddisp_report_info(C.Structure):
    pass


class ddisp_report_slot(C.Structure):
    pass


class ddisp_signature(C.Structure):
    pass


class ddisp_signature_info(C.Structure):
    pass


class ddisp_signature_param(C.Structure):
    pass


class ddisp_vulkan_needs(C.Structure):
    pass


class ddisp_vulkan_queue(C.Structure):
    pass


class ddisp_vulkan_device_desc(C.Structure):
    pass


class ddisp_vulkan_buffer_desc(C.Structure):
    pass


ddisp_log_function = C.CFUNCTYPE(None, C.c_void_p, C.c_uint32, C.c_char_p)
ddisp_release_function = C.CFUNCTYPE(None, C.c_void_p)
ddisp_notify_function = C.CFUNCTYPE(None, C.c_void_p, C.c_uint32)
ddisp_host_function = C.CFUNCTYPE(None, C.POINTER(ddisp_block), C.c_uint64, C.c_uint64)

ddisp_block._fields_ = [
    ("abi", C.c_uint32),
    ("size_bytes", C.c_uint32),
    ("items", C.c_uint64),
    ("tensor_count", C.c_uint32),
    ("scalar_count", C.c_uint32),
    ("flags", C.c_uint64),
]
ddisp_device_tensor._fields_ = [
    ("data", C.c_uint64),
    ("grad_add", C.c_uint64),
    ("grad_read", C.c_uint64),
    ("dtype", C.c_uint32),
    ("grad_dtype", C.c_uint32),
    ("flags", C.c_uint32),
    ("rank", C.c_uint32),
    ("shape", C.c_int64 * 8),
    ("stride", C.c_int64 * 8),
    ("add_stride", C.c_int64 * 8),
    ("read_stride", C.c_int64 * 8),
    ("scale", C.c_double),
    ("sticky", C.c_uint64),
    ("limit", C.c_double),
]
ddisp_error._fields_ = [
    ("size", C.c_uint32),
    ("status", C.c_uint32),
    ("argument", C.c_int32),
    ("reserved", C.c_uint32),
    ("native_code", C.c_int64),
    ("message", C.c_char * 488),
]
ddisp_allocator._fields_ = [
    ("size", C.c_uint32),
    ("reserved", C.c_uint32),
    ("user_data", C.c_void_p),
    ("allocate", C.CFUNCTYPE(C.c_void_p, C.c_void_p, C.c_uint64)),
    ("release", C.CFUNCTYPE(None, C.c_void_p, C.c_void_p)),
]
ddisp_chain._fields_ = [
    ("size", C.c_uint32),
    ("type", C.c_uint32),
    ("next", C.POINTER(ddisp_chain)),
]
ddisp_context_desc._fields_ = [
    ("size", C.c_uint32),
    ("log_level", C.c_uint32),
    ("next", C.POINTER(ddisp_chain)),
    ("flags", C.c_uint64),
    ("allocator", C.POINTER(ddisp_allocator)),
    ("log", ddisp_log_function),
    ("log_user_data", C.c_void_p),
    ("backends", C.c_char_p),
    ("backend_path", C.c_char_p),
    ("cache_directory", C.c_char_p),
]
ddisp_backend_info._fields_ = [
    ("size", C.c_uint32),
    ("status", C.c_uint32),
    ("abi_version", C.c_uint32),
    ("device_count", C.c_uint32),
    ("name", C.c_char * 64),
    ("version", C.c_char * 64),
    ("path", C.c_char * 512),
    ("reason", C.c_char * 512),
]
ddisp_device_info._fields_ = [
    ("size", C.c_uint32),
    ("rank", C.c_uint32),
    ("flags", C.c_uint64),
    ("memory_bytes", C.c_uint64),
    ("spec", C.c_char * 32),
    ("backend", C.c_char * 32),
    ("name", C.c_char * 128),
    ("uuid", C.c_char * 40),
    ("architecture", C.c_char * 32),
    ("driver", C.c_char * 96),
    ("formats", C.c_char * 96),
    ("specializes", C.c_char * 96),
    ("sink", C.c_char * 32),
    ("atomic_add_f16", C.c_uint32),
    ("atomic_add_bf16", C.c_uint32),
    ("atomic_add_f32", C.c_uint32),
    ("atomic_add_f64", C.c_uint32),
    ("max_allocation_bytes", C.c_uint64),
    ("max_group_count", C.c_uint32 * 3),
    ("max_group_size", C.c_uint32 * 3),
    ("max_group_threads", C.c_uint32),
    ("max_block_bytes", C.c_uint32),
    ("preferred_group_count", C.c_uint32),
    ("max_shared_bytes", C.c_uint32),
    ("subgroup_size", C.c_uint32),
    ("driver_version", C.c_uint32),
    ("vendor_id", C.c_uint32),
    ("device_id", C.c_uint32),
    ("features", C.c_uint64),
    ("driver_id", C.c_uint32),
    ("atomic_add_i64", C.c_uint32),
    ("dlpack_device_type", C.c_uint32),
    ("dlpack_device_id", C.c_int32),
]
ddisp_device_statistics._fields_ = [
    ("size", C.c_uint32),
    ("reserved", C.c_uint32),
    ("allocations", C.c_uint64),
    ("frees", C.c_uint64),
    ("bytes_live", C.c_uint64),
    ("bytes_peak", C.c_uint64),
    ("gradient_bytes_live", C.c_uint64),
    ("gradient_bytes_peak", C.c_uint64),
    ("scratch_bytes_live", C.c_uint64),
    ("scratch_bytes_peak", C.c_uint64),
    ("sink_bytes_live", C.c_uint64),
    ("launches", C.c_uint64),
    ("skips", C.c_uint64),
    ("fills", C.c_uint64),
    ("variants_built", C.c_uint64),
    ("bytes_cached", C.c_uint64),
    ("bytes_reserved_peak", C.c_uint64),
    ("reuses", C.c_uint64),
    ("memory_limit_bytes", C.c_uint64),
]
ddisp_tensor_info._fields_ = [
    ("size", C.c_uint32),
    ("dtype", C.c_uint32),
    ("rank", C.c_uint32),
    ("grad_state", C.c_uint32),
    ("flags", C.c_uint64),
    ("address", C.c_uint64),
    ("numel", C.c_int64),
    ("shape", C.c_int64 * 8),
    ("strides", C.c_int64 * 8),
]
ddisp_tensor_view._fields_ = [
    ("size", C.c_uint32),
    ("dtype", C.c_uint32),
    ("rank", C.c_uint32),
    ("grad_dtype", C.c_uint32),
    ("flags", C.c_uint64),
    ("address", C.c_uint64),
    ("shape", C.POINTER(C.c_int64)),
    ("strides", C.POINTER(C.c_int64)),
    ("grad_add_strides", C.POINTER(C.c_int64)),
    ("grad_read_strides", C.POINTER(C.c_int64)),
]
ddisp_accumulate_options._fields_ = [
    ("size", C.c_uint32),
    ("reserved", C.c_uint32),
    ("flags", C.c_uint64),
    ("out_skipped", C.POINTER(C.c_uint64)),
]
ddisp_param._fields_ = [
    ("name", C.c_char_p),
    ("kind", C.c_uint32),
    ("access", C.c_uint32),
    ("dtype", C.c_uint32),
    ("rank", C.c_uint32),
    ("flags", C.c_uint64),
]
ddisp_code_param._fields_ = [
    ("param", C.c_uint32),
    ("write_mode", C.c_uint32),
    ("grad_dtype", C.c_uint32),
    ("layouts", C.c_uint32),
    ("grad_layouts", C.c_uint32),
    ("alignment", C.c_uint32),
    ("switch_id", C.c_uint32),
    ("reserved", C.c_uint32),
]
ddisp_native_arg._fields_ = [
    ("source", C.c_uint32),
    ("param", C.c_uint32),
    ("index", C.c_uint32),
    ("space", C.c_uint32),
    ("set", C.c_uint32),
    ("location", C.c_uint32),
    ("size_bytes", C.c_uint32),
    ("flags", C.c_uint32),
]
ddisp_entry._fields_ = [
    ("mode", C.c_uint32),
    ("group_size", C.c_uint32 * 3),
    ("name", C.c_char_p),
    ("function", ddisp_host_function),
    ("function_id", C.c_uint64),
    ("mask", C.c_uint64),
    ("flags", C.c_uint64),
    ("native", C.POINTER(ddisp_native_arg)),
    ("native_count", C.c_uint32),
    ("shared_bytes", C.c_uint32),
]
ddisp_header._fields_ = [
    ("name", C.c_char_p),
    ("bytes", C.c_void_p),
    ("size_bytes", C.c_uint64),
]
ddisp_code._fields_ = [
    ("backend", C.c_char_p),
    ("format", C.c_char_p),
    ("bytes", C.c_void_p),
    ("size_bytes", C.c_uint64),
    ("entries", C.POINTER(ddisp_entry)),
    ("entry_count", C.c_uint32),
    ("entry_size", C.c_uint32),
    ("params", C.POINTER(ddisp_code_param)),
    ("param_count", C.c_uint32),
    ("param_size", C.c_uint32),
    ("options", C.c_char_p),
    ("flags", C.c_uint64),
    ("headers", C.POINTER(ddisp_header)),
    ("header_count", C.c_uint32),
    ("header_size", C.c_uint32),
]
ddisp_kernel_desc._fields_ = [
    ("size", C.c_uint32),
    ("variant_budget", C.c_uint32),
    ("next", C.POINTER(ddisp_chain)),
    ("name", C.c_char_p),
    ("params", C.POINTER(ddisp_param)),
    ("param_count", C.c_uint32),
    ("param_size", C.c_uint32),
    ("codes", C.POINTER(ddisp_code)),
    ("code_count", C.c_uint32),
    ("code_size", C.c_uint32),
    ("flags", C.c_uint64),
]
ddisp_kernel_statistics._fields_ = [
    ("size", C.c_uint32),
    ("reserved", C.c_uint32),
    ("signatures", C.c_uint64),
    ("variants", C.c_uint64),
    ("variants_built", C.c_uint64),
    ("signature_hits", C.c_uint64),
    ("hash_collisions", C.c_uint64),
    ("artifacts_read", C.c_uint64),
    ("artifacts_made", C.c_uint64),
    ("artifacts_repaired", C.c_uint64),
]
ddisp_cuda_device_desc._fields_ = [
    ("head", ddisp_chain),
    ("context", C.c_void_p),
]
ddisp_arg._fields_ = [
    ("tensor", C.c_void_p),
    ("view", C.POINTER(ddisp_tensor_view)),
    ("grad_add", C.c_uint64),
    ("grad_read", C.c_uint64),
    ("scalar", C.c_void_p),
    ("scalar_size", C.c_uint32),
    ("policy", C.c_uint32),
    ("flags", C.c_uint64),
    ("reserved", C.c_uint64),
]
ddisp_bound._fields_ = [
    ("param", C.c_uint32),
    ("reserved", C.c_uint32),
    ("bound", C.c_double),
    ("adds", C.c_uint64),
]
ddisp_launch_options._fields_ = [
    ("size", C.c_uint32),
    ("policy", C.c_uint32),
    ("next", C.POINTER(ddisp_chain)),
    ("flags", C.c_uint64),
    ("items", C.c_uint64 * 3),
    ("grid", C.c_uint32 * 3),
    ("reserved", C.c_uint32),
    ("device", C.c_void_p),
    ("error", C.POINTER(ddisp_error)),
    ("report", C.c_void_p),
    ("bounds", C.POINTER(ddisp_bound)),
    ("bound_count", C.c_uint32),
    ("bound_size", C.c_uint32),
]
ddisp_report_info._fields_ = [
    ("size", C.c_uint32),
    ("status", C.c_uint32),
    ("mode", C.c_uint32),
    ("skip", C.c_uint32),
    ("launched", C.c_uint32),
    ("code", C.c_uint32),
    ("variant", C.c_uint32),
    ("slot_count", C.c_uint32),
    ("items", C.c_uint64),
    ("build_ns", C.c_uint64),
    ("extra_bytes", C.c_uint64),
    ("mask", C.c_uint64),
    ("signature", C.c_uint8 * 16),
]
ddisp_report_slot._fields_ = [
    ("size", C.c_uint32),
    ("param", C.c_uint32),
    ("is_add", C.c_uint32),
    ("backing", C.c_uint32),
    ("policy", C.c_uint32),
    ("requires_grad", C.c_uint32),
    ("flags", C.c_uint64),
    ("bytes", C.c_uint64),
    ("reason", C.c_char * 128),
]
ddisp_signature._fields_ = [
    ("size", C.c_uint32),
    ("byte_count", C.c_uint32),
    ("hash", C.c_uint8 * 16),
    ("bytes", C.c_uint8 * 2024),
]
ddisp_signature_info._fields_ = [
    ("size", C.c_uint32),
    ("version", C.c_uint32),
    ("mode", C.c_uint32),
    ("param_count", C.c_uint32),
    ("backend", C.c_char * 32),
    ("architecture", C.c_char * 32),
    ("vendor_id", C.c_uint32),
    ("device_id", C.c_uint32),
    ("driver_id", C.c_uint32),
    ("index_width", C.c_uint32),
    ("features", C.c_uint64),
    ("flags", C.c_uint64),
    ("deterministic", C.c_uint32),
    ("atomic_mode", C.c_uint32),
    ("kernel", C.c_uint8 * 16),
    ("hash", C.c_uint8 * 16),
]
ddisp_signature_param._fields_ = [
    ("size", C.c_uint32),
    ("kind", C.c_uint32),
    ("access", C.c_uint32),
    ("dtype", C.c_uint32),
    ("rank", C.c_uint32),
    ("layout", C.c_uint32),
    ("alignment", C.c_uint32),
    ("alias", C.c_uint32),
    ("flags", C.c_uint32),
    ("policy", C.c_uint32),
    ("write_modes", C.c_uint32),
    ("add_alias", C.c_uint32),
    ("add_dtype", C.c_uint32),
    ("add_layout", C.c_uint32),
    ("read_dtype", C.c_uint32),
    ("read_layout", C.c_uint32),
]
ddisp_vulkan_needs._fields_ = [
    ("head", ddisp_chain),
    ("instance", C.c_void_p),
    ("physical_device", C.c_void_p),
    ("api_version", C.c_uint32),
    ("queue_flags", C.c_uint32),
    ("buffer_usage", C.c_uint32),
    ("memory_flags", C.c_uint32),
    ("extension_count", C.c_uint32),
    ("reserved", C.c_uint32),
    ("extensions", C.c_char_p * 32),
    ("features", C.c_void_p),
    ("storage", C.c_uint64 * 256),
]
ddisp_vulkan_queue._fields_ = [
    ("queue", C.c_void_p),
    ("user_data", C.c_void_p),
    ("lock", C.CFUNCTYPE(None, C.c_void_p)),
    ("unlock", C.CFUNCTYPE(None, C.c_void_p)),
]
ddisp_vulkan_device_desc._fields_ = [
    ("head", ddisp_chain),
    ("instance", C.c_void_p),
    ("physical_device", C.c_void_p),
    ("device", C.c_void_p),
    ("api_version", C.c_uint32),
    ("queue_family", C.c_uint32),
    ("queues", C.POINTER(ddisp_vulkan_queue)),
    ("queue_count", C.c_uint32),
    ("extension_count", C.c_uint32),
    ("extensions", C.POINTER(C.POINTER(C.c_char))),
    ("features", C.c_void_p),
    ("core_features", C.c_void_p),
]
ddisp_vulkan_buffer_desc._fields_ = [
    ("head", ddisp_chain),
    ("buffer", C.c_uint64),
    ("buffer_size_bytes", C.c_uint64),
    ("offset_bytes", C.c_uint64),
    ("usage", C.c_uint32),
    ("reserved", C.c_uint32),
]

# name: (result, arguments)
FUNCTIONS = {
    "ddisp_status_name": (C.c_char_p, [C.c_uint32]),
    "ddisp_status_describe": (C.c_char_p, [C.c_uint32]),
    "ddisp_last_error": (Status, [C.POINTER(C.c_char), C.c_uint64, C.POINTER(C.c_uint64)]),
    "ddisp_last_error_detail": (Status, [C.POINTER(ddisp_error)]),
    "ddisp_version": (C.c_uint32, []),
    "ddisp_version_string": (C.c_char_p, []),
    "ddisp_context_create": (Status, [C.POINTER(ddisp_context_desc), C.POINTER(C.c_void_p)]),
    "ddisp_context_retain": (None, [C.c_void_p]),
    "ddisp_context_release": (None, [C.c_void_p]),
    "ddisp_backend_count": (Status, [C.c_void_p, C.POINTER(C.c_uint32)]),
    "ddisp_backend_get_info": (Status, [C.c_void_p, C.c_uint32, C.POINTER(ddisp_backend_info)]),
    "ddisp_context_get_cache_directory": (Status, [C.c_void_p, C.POINTER(C.c_char), C.c_uint64, C.POINTER(C.c_uint64)]),
    "ddisp_device_count": (Status, [C.c_void_p, C.POINTER(C.c_uint32)]),
    "ddisp_device_describe": (Status, [C.c_void_p, C.c_uint32, C.POINTER(ddisp_device_info)]),
    "ddisp_device_open": (Status, [C.c_void_p, C.c_char_p, C.POINTER(C.c_void_p)]),
    "ddisp_device_retain": (None, [C.c_void_p]),
    "ddisp_device_release": (None, [C.c_void_p]),
    "ddisp_device_get_info": (Status, [C.c_void_p, C.POINTER(ddisp_device_info)]),
    "ddisp_device_status": (Status, [C.c_void_p]),
    "ddisp_device_synchronize": (Status, [C.c_void_p, C.c_uint64]),
    "ddisp_device_get_statistics": (Status, [C.c_void_p, C.POINTER(ddisp_device_statistics)]),
    "ddisp_device_trim": (Status, [C.c_void_p]),
    "ddisp_device_set_memory_limit": (Status, [C.c_void_p, C.c_uint64]),
    "ddisp_device_wrap": (Status, [C.c_void_p, C.c_char_p, C.POINTER(ddisp_chain), C.POINTER(C.c_void_p)]),
    "ddisp_backend_get_needs": (Status, [C.c_void_p, C.c_char_p, C.POINTER(ddisp_chain)]),
    "ddisp_buffer_create": (Status, [C.c_void_p, C.c_uint64, C.POINTER(C.c_void_p)]),
    "ddisp_buffer_wrap": (Status, [C.c_void_p, C.c_uint64, C.c_uint64, ddisp_release_function, C.c_void_p, C.POINTER(C.c_void_p)]),
    "ddisp_buffer_wrap_native": (Status, [C.c_void_p, C.POINTER(ddisp_chain), C.c_uint64, ddisp_release_function, C.c_void_p, C.POINTER(C.c_void_p)]),
    "ddisp_buffer_retain": (None, [C.c_void_p]),
    "ddisp_buffer_release": (None, [C.c_void_p]),
    "ddisp_buffer_address": (C.c_uint64, [C.c_void_p]),
    "ddisp_buffer_size": (C.c_uint64, [C.c_void_p]),
    "ddisp_buffer_write": (Status, [C.c_void_p, C.c_uint64, C.c_void_p, C.c_uint64, C.c_void_p]),
    "ddisp_buffer_read": (Status, [C.c_void_p, C.c_uint64, C.c_void_p, C.c_uint64, C.c_void_p]),
    "ddisp_stream_create": (Status, [C.c_void_p, C.c_uint64, C.POINTER(C.c_void_p)]),
    "ddisp_stream_wrap": (Status, [C.c_void_p, C.c_uint64, C.POINTER(C.c_void_p)]),
    "ddisp_stream_retain": (None, [C.c_void_p]),
    "ddisp_stream_release": (None, [C.c_void_p]),
    "ddisp_stream_flush": (Status, [C.c_void_p]),
    "ddisp_stream_synchronize": (Status, [C.c_void_p, C.c_uint64]),
    "ddisp_stream_wait_event": (Status, [C.c_void_p, C.c_void_p]),
    "ddisp_event_create": (Status, [C.c_void_p, C.c_uint64, C.POINTER(C.c_void_p)]),
    "ddisp_event_retain": (None, [C.c_void_p]),
    "ddisp_event_release": (None, [C.c_void_p]),
    "ddisp_event_record": (Status, [C.c_void_p, C.c_void_p]),
    "ddisp_event_query": (Status, [C.c_void_p]),
    "ddisp_event_synchronize": (Status, [C.c_void_p, C.c_uint64]),
    "ddisp_event_elapsed": (Status, [C.c_void_p, C.c_void_p, C.POINTER(C.c_uint64)]),
    "ddisp_event_notify": (Status, [C.c_void_p, ddisp_notify_function, C.c_void_p]),
    "ddisp_dtype_size": (C.c_uint32, [C.c_uint32]),
    "ddisp_dtype_name": (C.c_char_p, [C.c_uint32]),
    "ddisp_tensor_create": (Status, [C.c_void_p, C.c_uint32, C.c_uint32, C.POINTER(C.c_int64), C.c_uint64, C.POINTER(C.c_void_p)]),
    "ddisp_tensor_create_over": (Status, [C.c_void_p, C.c_uint32, C.c_uint32, C.POINTER(C.c_int64), C.POINTER(C.c_int64), C.c_int64, C.c_uint64, C.POINTER(C.c_void_p)]),
    "ddisp_tensor_as_strided": (Status, [C.c_void_p, C.c_uint32, C.POINTER(C.c_int64), C.POINTER(C.c_int64), C.c_int64, C.POINTER(C.c_void_p)]),
    "ddisp_tensor_detach": (Status, [C.c_void_p, C.POINTER(C.c_void_p)]),
    "ddisp_tensor_retain": (None, [C.c_void_p]),
    "ddisp_tensor_release": (None, [C.c_void_p]),
    "ddisp_tensor_get_info": (Status, [C.c_void_p, C.POINTER(ddisp_tensor_info)]),
    "ddisp_tensor_device": (C.c_void_p, [C.c_void_p]),
    "ddisp_tensor_write": (Status, [C.c_void_p, C.c_void_p, C.c_uint64, C.c_void_p]),
    "ddisp_tensor_read": (Status, [C.c_void_p, C.c_void_p, C.c_uint64, C.c_void_p]),
    "ddisp_tensor_set_requires_grad": (Status, [C.c_void_p, C.c_uint32]),
    "ddisp_tensor_grad": (Status, [C.c_void_p, C.POINTER(C.c_void_p)]),
    "ddisp_tensor_set_grad": (Status, [C.c_void_p, C.c_void_p]),
    "ddisp_tensor_clear_grad": (Status, [C.c_void_p]),
    "ddisp_tensor_fill": (Status, [C.c_void_p, C.c_double, C.c_void_p]),
    "ddisp_tensor_copy": (Status, [C.c_void_p, C.c_void_p, C.c_void_p]),
    "ddisp_tensor_accumulate": (Status, [C.c_void_p, C.c_void_p, C.c_double, C.POINTER(ddisp_accumulate_options), C.c_void_p]),
    "ddisp_tensor_scatter_add": (Status, [C.c_void_p, C.c_uint32, C.c_void_p, C.c_void_p, C.POINTER(ddisp_accumulate_options), C.c_void_p]),
    "ddisp_kernel_create": (Status, [C.c_void_p, C.POINTER(ddisp_kernel_desc), C.POINTER(C.c_void_p)]),
    "ddisp_kernel_retain": (None, [C.c_void_p]),
    "ddisp_kernel_release": (None, [C.c_void_p]),
    "ddisp_kernel_get_statistics": (Status, [C.c_void_p, C.POINTER(ddisp_kernel_statistics)]),
    "ddisp_tensor_from_dlpack_versioned": (Status, [C.c_void_p, C.c_void_p, C.c_uint64, C.c_void_p, C.POINTER(C.c_void_p)]),
    "ddisp_tensor_from_dlpack": (Status, [C.c_void_p, C.c_void_p, C.c_uint64, C.c_void_p, C.POINTER(C.c_void_p)]),
    "ddisp_tensor_to_dlpack_versioned": (Status, [C.c_void_p, C.c_void_p, C.POINTER(C.c_void_p)]),
    "ddisp_tensor_to_dlpack": (Status, [C.c_void_p, C.c_void_p, C.POINTER(C.c_void_p)]),
    "ddisp_policy_name": (C.c_char_p, [C.c_uint32]),
    "ddisp_backing_name": (C.c_char_p, [C.c_uint32]),
    "ddisp_launch": (Status, [C.c_void_p, C.c_uint32, C.POINTER(ddisp_arg), C.c_uint32, C.POINTER(ddisp_launch_options), C.c_void_p]),
    "ddisp_report_create": (Status, [C.c_void_p, C.POINTER(C.c_void_p)]),
    "ddisp_report_release": (None, [C.c_void_p]),
    "ddisp_report_get_info": (Status, [C.c_void_p, C.POINTER(ddisp_report_info)]),
    "ddisp_report_get_slot": (Status, [C.c_void_p, C.c_uint32, C.POINTER(ddisp_report_slot)]),
    "ddisp_report_format": (Status, [C.c_void_p, C.POINTER(C.c_char), C.c_uint64, C.POINTER(C.c_uint64)]),
    "ddisp_report_get_label": (Status, [C.c_void_p, C.POINTER(C.c_char), C.c_uint64, C.POINTER(C.c_uint64)]),
    "ddisp_report_get_signature": (Status, [C.c_void_p, C.POINTER(C.c_uint8), C.c_uint64, C.POINTER(C.c_uint64)]),
    "ddisp_plan_create": (Status, [C.c_void_p, C.c_uint32, C.POINTER(ddisp_arg), C.c_uint32, C.POINTER(ddisp_launch_options), C.c_void_p, C.POINTER(C.c_void_p)]),
    "ddisp_plan_retain": (None, [C.c_void_p]),
    "ddisp_plan_release": (None, [C.c_void_p]),
    "ddisp_plan_launch": (Status, [C.c_void_p, C.POINTER(ddisp_arg), C.c_uint32, C.c_void_p]),
    "ddisp_stream_begin_capture": (Status, [C.c_void_p]),
    "ddisp_stream_end_capture": (Status, [C.c_void_p, C.POINTER(C.c_void_p)]),
    "ddisp_graph_launch": (Status, [C.c_void_p, C.c_void_p]),
    "ddisp_graph_launch_count": (C.c_uint32, [C.c_void_p]),
    "ddisp_graph_update": (Status, [C.c_void_p, C.c_uint32, C.c_uint32, C.POINTER(ddisp_arg)]),
    "ddisp_graph_retain": (None, [C.c_void_p]),
    "ddisp_graph_release": (None, [C.c_void_p]),
    "ddisp_launch_signature": (Status, [C.c_void_p, C.c_uint32, C.POINTER(ddisp_arg), C.c_uint32, C.POINTER(ddisp_launch_options), C.c_void_p, C.POINTER(ddisp_signature)]),
    "ddisp_signature_decode": (Status, [C.POINTER(C.c_uint8), C.c_uint64, C.POINTER(ddisp_signature_info)]),
    "ddisp_signature_decode_param": (Status, [C.POINTER(C.c_uint8), C.c_uint64, C.c_uint32, C.POINTER(ddisp_signature_param)]),
    "ddisp_signature_format": (Status, [C.POINTER(C.c_uint8), C.c_uint64, C.POINTER(C.c_char), C.c_uint64, C.POINTER(C.c_uint64)]),
}
