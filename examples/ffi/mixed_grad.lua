-- mixed_grad.lua - the mixed-gradient job in LuaJIT: y = a * b backward, with every mixture of frozen inputs and inputs that require
-- a gradient. The C API is declared below as far as it is used.
--
-- usage: luajit mixed_grad.lua [DEVICE [FOLDER [N]]]
--   DEVICE  host (the kernel is kernel.so, from the C file beside this one: a Lua function cannot run in the library's
--           threads) or vulkan:0 (the kernel is SPIR-V); default: host
--   FOLDER  where kernel.so, mul_forward.spv, mul_backward.spv and mul_backward_cas.spv are; default: build/examples/ffi
--   N       elements; default: 100003
-- The library is found as DDISP_LIBRARY, else where the system's linker looks.
-- Exits 0 only when every gradient is what the double reference says, and no frozen input has one.
local ffi = require("ffi")

ffi.cdef [[
typedef uint32_t ddisp_status;
typedef struct ddisp_context ddisp_context;
typedef struct ddisp_device ddisp_device;
typedef struct ddisp_kernel ddisp_kernel;
typedef struct ddisp_tensor ddisp_tensor;
typedef struct ddisp_stream ddisp_stream;
typedef struct ddisp_report ddisp_report;
typedef struct { const char *name; uint32_t kind, access, dtype, rank; uint64_t flags; } ddisp_param;
typedef struct {
    uint32_t mode, group_size[3];
    const char *name;
    void *function;
    uint64_t function_id, mask, flags;
    const void *native;
    uint32_t native_count, shared_bytes;
} ddisp_entry;
typedef struct {
    const char *backend, *format;
    const void *bytes;
    uint64_t size_bytes;
    const ddisp_entry *entries;
    uint32_t entry_count, entry_size;
    const void *params;
    uint32_t param_count, param_size;
    const char *options;
    uint64_t flags;
    const void *headers;
    uint32_t header_count, header_size;
} ddisp_code;
typedef struct {
    uint32_t size, variant_budget;
    const void *next;
    const char *name;
    const ddisp_param *params;
    uint32_t param_count, param_size;
    const ddisp_code *codes;
    uint32_t code_count, code_size;
    uint64_t flags;
} ddisp_kernel_desc;
typedef struct {
    ddisp_tensor *tensor;
    const void *view;
    uint64_t grad_add, grad_read;
    const void *scalar;
    uint32_t scalar_size, policy;
    uint64_t flags, reserved;
} ddisp_arg;
typedef struct {
    uint32_t size, policy;
    const void *next;
    uint64_t flags, items[3];
    uint32_t grid[3], reserved;
    ddisp_device *device;
    void *error;
    ddisp_report *report;
    const void *bounds;
    uint32_t bound_count, bound_size;
} ddisp_launch_options;
typedef struct {
    uint32_t size, status, mode, skip, launched, code, variant, slot_count;
    uint64_t items, build_ns, extra_bytes, mask;
    uint8_t signature[16];
} ddisp_report_info;
typedef struct {
    uint32_t size, param, is_add, backing, policy, requires_grad;
    uint64_t flags, bytes;
    char reason[128];
} ddisp_report_slot;

const char *ddisp_status_name(ddisp_status status);
ddisp_status ddisp_last_error(char *buffer, uint64_t capacity, uint64_t *out_length);
ddisp_status ddisp_context_create(const void *desc, ddisp_context **out_context);
void ddisp_context_release(ddisp_context *context);
ddisp_status ddisp_device_open(ddisp_context *context, const char *spec, ddisp_device **out_device);
void ddisp_device_release(ddisp_device *device);
ddisp_status ddisp_kernel_create(ddisp_context *context, const ddisp_kernel_desc *desc, ddisp_kernel **out_kernel);
void ddisp_kernel_release(ddisp_kernel *kernel);
ddisp_status ddisp_tensor_create(ddisp_device *device, uint32_t dtype, uint32_t rank, const int64_t *shape, uint64_t flags,
                                 ddisp_tensor **out_tensor);
void ddisp_tensor_release(ddisp_tensor *tensor);
ddisp_status ddisp_tensor_write(ddisp_tensor *tensor, const void *data, uint64_t size_bytes, ddisp_stream *stream);
ddisp_status ddisp_tensor_read(ddisp_tensor *tensor, void *data, uint64_t size_bytes, ddisp_stream *stream);
ddisp_status ddisp_tensor_grad(ddisp_tensor *tensor, ddisp_tensor **out_grad);
ddisp_status ddisp_tensor_set_grad(ddisp_tensor *tensor, ddisp_tensor *grad);
ddisp_status ddisp_report_create(ddisp_context *context, ddisp_report **out_report);
void ddisp_report_release(ddisp_report *report);
ddisp_status ddisp_report_get_info(const ddisp_report *report, ddisp_report_info *out_info);
ddisp_status ddisp_report_get_slot(const ddisp_report *report, uint32_t index, ddisp_report_slot *out_slot);
const char *ddisp_backing_name(uint32_t backing);
ddisp_status ddisp_launch(ddisp_kernel *kernel, uint32_t mode, const ddisp_arg *args, uint32_t arg_count,
                          const ddisp_launch_options *options, ddisp_stream *stream);
char *realpath(const char *path, char *resolved);
void free(void *memory);
]]
local NO_GRADIENT, F32, REQUIRES_GRAD, FORWARD, BACKWARD, IN, OUT = 6, 12, 1, 1, 2, 1, 2
local DIFFERENTIABLE, LOOPS, NULL_SAFE, ANY_LAYOUT = 1, 2, 1, 4
local dd = ffi.load(os.getenv("DDISP_LIBRARY") or "diffdispatch")

local function check(status, what)
    if status ~= 0 then
        local message = ffi.new("char[512]")
        dd.ddisp_last_error(message, 512, nil)
        error(what .. ": " .. ffi.string(dd.ddisp_status_name(status)) .. ": " .. ffi.string(message), 0)
    end
end

-- An object of the library, which is given back when nothing refers to it. Objects hold what they need of each other.
local function make(kind, create, ...)
    local out = ffi.new("ddisp_" .. kind .. " *[1]")
    local count, arguments = select("#", ...), {...} -- some may be nil
    arguments[count + 1] = out
    check(create(unpack(arguments, 1, count + 1)), kind)
    return ffi.gc(out[0], dd["ddisp_" .. kind .. "_release"])
end

local function read_file(path)
    local file, message = io.open(path, "rb")
    if not file then error(message, 0) end
    local bytes = file:read("*a")
    file:close()
    return bytes
end

local function make_kernel(context, folder, vulkan)
    local kept, codes = {}, {} -- what C only points to must stay referred to here until the kernel is made
    local function code(backend, format, bytes, flags, entries)
        local array = ffi.new("ddisp_entry[?]", #entries, entries)
        kept[#kept + 1] = {array, bytes, entries}
        codes[#codes + 1] = {
            backend = backend, format = format, bytes = ffi.cast("const char *", bytes), size_bytes = #bytes, entries = array,
            entry_count = #entries, entry_size = ffi.sizeof("ddisp_entry"), flags = flags}
    end
    if vulkan then
        local function module(file, mode)
            code("vulkan", "spirv", read_file(folder .. "/" .. file), NULL_SAFE + ANY_LAYOUT,
                {{mode = mode, group_size = {256, 1, 1}, name = "main", flags = LOOPS}})
        end
        module("mul_forward.spv", FORWARD)
        module("mul_backward.spv", BACKWARD)
        module("mul_backward_cas.spv", BACKWARD) -- for devices without native float atomics
    else
        local path = ffi.C.realpath(folder .. "/kernel.so", nil)
        if path == nil then error(folder .. "/kernel.so is not there", 0) end
        code("host", "host-library", ffi.string(path) .. "\0", NULL_SAFE + ANY_LAYOUT,
            {{mode = FORWARD, name = "mul_forward"}, {mode = BACKWARD, name = "mul_backward"}})
        ffi.C.free(path)
    end
    local params = ffi.new("ddisp_param[3]", {
        {"a", 0, IN, F32, 1, DIFFERENTIABLE}, {"b", 0, IN, F32, 1, DIFFERENTIABLE}, {"y", 0, OUT, F32, 1, DIFFERENTIABLE}})
    local array = ffi.new("ddisp_code[?]", #codes, codes)
    local desc = ffi.new("ddisp_kernel_desc", {
        size = ffi.sizeof("ddisp_kernel_desc"), name = "mul", params = params, param_count = 3,
        param_size = ffi.sizeof("ddisp_param"), codes = array, code_count = #codes, code_size = ffi.sizeof("ddisp_code")})
    local kernel = make("kernel", dd.ddisp_kernel_create, context, desc)
    kept.done = true
    return kernel
end

local function tensor(job, values, requires_grad)
    local made = make("tensor", dd.ddisp_tensor_create, job.device, F32, 1, ffi.new("int64_t[1]", job.n),
        requires_grad and REQUIRES_GRAD or 0)
    if values then check(dd.ddisp_tensor_write(made, values, 4 * job.n, nil), "write") end
    return made
end

-- Whether a tensor holds x * y: one product, rounded once. Numbers of Lua are doubles.
local function is_product(job, held, x, y)
    local got = ffi.new("float[?]", job.n)
    check(dd.ddisp_tensor_read(held, got, 4 * job.n, nil), "read")
    for i = 0, job.n - 1 do
        local wanted = x[i] * y[i]
        if not (math.abs(got[i] - wanted) <= math.abs(wanted) * 2 ^ -23 + 1.2e-38) then return false end
    end
    return true
end

-- A gradient in a word.
local function gradient(job, input, requires_grad, other)
    local out = ffi.new("ddisp_tensor *[1]")
    local status = dd.ddisp_tensor_grad(input, out)
    if not requires_grad then return status == NO_GRADIENT and out[0] == nil and "none" or "WRONG" end
    check(status, "gradient")
    return is_product(job, ffi.gc(out[0], dd.ddisp_tensor_release), job.upstream, other) and "right" or "WRONG"
end

-- One mixture. Prints its row; whether it is right.
local function row(job, spec, grad_a, grad_b)
    local a, b = tensor(job, job.a, grad_a), tensor(job, job.b, grad_b)
    local y, upstream = tensor(job, nil, true), tensor(job, job.upstream, false)
    local args = ffi.new("ddisp_arg[3]", {{tensor = a}, {tensor = b}, {tensor = y}})
    local options = ffi.new("ddisp_launch_options", {size = ffi.sizeof("ddisp_launch_options"), report = job.report})
    check(dd.ddisp_launch(job.kernel, FORWARD, args, 3, nil, nil), "forward")
    if not is_product(job, y, job.a, job.b) then error("y is not a * b", 0) end
    check(dd.ddisp_tensor_set_grad(y, upstream), "upstream")
    check(dd.ddisp_launch(job.kernel, BACKWARD, args, 3, options, nil), "backward")

    local backing = {[0] = "none", "none"}
    local info = ffi.new("ddisp_report_info", {size = ffi.sizeof("ddisp_report_info")})
    check(dd.ddisp_report_get_info(job.report, info), "report")
    for i = 0, info.slot_count - 1 do
        local slot = ffi.new("ddisp_report_slot", {size = ffi.sizeof("ddisp_report_slot")})
        check(dd.ddisp_report_get_slot(job.report, i, slot), "report")
        if slot.is_add ~= 0 and slot.param < 2 then
            backing[slot.param] = ffi.string(dd.ddisp_backing_name(slot.backing))
        end
    end
    local word_a, word_b = gradient(job, a, grad_a, job.b), gradient(job, b, grad_b, job.a)
    local function asked(grad) return grad and "grad" or "frozen" end
    print(("%-9s %-7s %-7s %-8s %-8s %-7s %s"):format(
        spec, asked(grad_a), asked(grad_b), backing[0], backing[1], word_a, word_b))
    return word_a == (grad_a and "right" or "none") and word_b == (grad_b and "right" or "none")
end

local function run(spec, folder, n)
    if not n or n < 1 then error("usage: luajit mixed_grad.lua [DEVICE [FOLDER [N]]]", 0) end
    local context = make("context", dd.ddisp_context_create, nil)
    local job = {n = n, device = make("device", dd.ddisp_device_open, context, spec)}
    job.kernel = make_kernel(context, folder, spec:find("^vulkan") ~= nil)
    job.report = make("report", dd.ddisp_report_create, context)
    for name, step in pairs({a = 7919, b = 104729, upstream = 1299709}) do
        job[name] = ffi.new("float[?]", n)
        for i = 0, n - 1 do job[name][i] = (i * step) % 10007 / 10007 - 0.5 end
    end

    print(("%-9s %-7s %-7s %-8s %-8s %-7s %s"):format("device", "a", "b", "slot a", "slot b", "grad a", "grad b"))
    local right = true
    for _, grads in ipairs({{true, true}, {true, false}, {false, true}, {false, false}}) do
        right = row(job, spec, grads[1], grads[2]) and right
    end
    return right
end

local n = tonumber(arg[3] or "100003")
local done, result = pcall(run, arg[1] or "host", arg[2] or "build/examples/ffi", n)
if not done then io.stderr:write("mixed_grad: ", tostring(result), "\n") end
os.exit(done and result and 0 or 1, true)
