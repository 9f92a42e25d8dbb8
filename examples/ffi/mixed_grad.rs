// mixed_grad.rs - the mixed-gradient job in Rust: y = a * b backward, with every mixture of frozen inputs and inputs that
// require a gradient. No crates: the C API is declared below as far as it is used.
//
// usage: mixed_grad_rust [DEVICE [FOLDER [N]]]
//   DEVICE  host (the kernel is in Rust, in this file) or vulkan:0 (the kernel is SPIR-V); default: host
//   FOLDER  where mul_forward.spv, mul_backward.spv and mul_backward_cas.spv are; default: build/examples/ffi
//   N       elements; default: 100003
// Exits 0 only when every gradient is what the double reference says, and no frozen input has one.
use std::ffi::{c_void, CStr, CString};
use std::os::raw::c_char;
use std::ptr::{null, null_mut};

// ---- the C API

#[repr(C)]
struct Param {
    name: *const c_char,
    kind: u32,
    access: u32,
    dtype: u32,
    rank: u32,
    flags: u64,
}
type HostFunction = unsafe extern "C" fn(*const Block, u64, u64);
#[repr(C)]
struct Entry {
    mode: u32,
    group_size: [u32; 3],
    name: *const c_char,
    function: Option<HostFunction>,
    function_id: u64,
    mask: u64,
    flags: u64,
    native: *const c_void,
    native_count: u32,
    shared_bytes: u32,
}
#[repr(C)]
#[derive(Default)]
struct CodeParam {
    param: u32,
    write_mode: u32,
    grad_dtype: u32,
    layouts: u32,
    grad_layouts: u32,
    alignment: u32,
    switch_id: u32,
    reserved: u32,
}
#[repr(C)]
struct Code {
    backend: *const c_char,
    format: *const c_char,
    bytes: *const c_void,
    size_bytes: u64,
    entries: *const Entry,
    entry_count: u32,
    entry_size: u32,
    params: *const CodeParam,
    param_count: u32,
    param_size: u32,
    options: *const c_char,
    flags: u64,
    headers: *const c_void,
    header_count: u32,
    header_size: u32,
}
#[repr(C)]
struct KernelDesc {
    size: u32,
    variant_budget: u32,
    next: *const c_void,
    name: *const c_char,
    params: *const Param,
    param_count: u32,
    param_size: u32,
    codes: *const Code,
    code_count: u32,
    code_size: u32,
    flags: u64,
}
#[repr(C)]
struct Arg {
    tensor: *mut c_void,
    view: *const c_void,
    grad_add: u64,
    grad_read: u64,
    scalar: *const c_void,
    scalar_size: u32,
    policy: u32,
    flags: u64,
    reserved: u64,
}
#[repr(C)]
struct LaunchOptions {
    size: u32,
    policy: u32,
    next: *const c_void,
    flags: u64,
    items: [u64; 3],
    grid: [u32; 3],
    reserved: u32,
    device: *mut c_void,
    error: *mut c_void,
    report: *mut c_void,
    bounds: *const c_void,
    bound_count: u32,
    bound_size: u32,
}
#[repr(C)]
struct ReportInfo {
    size: u32,
    status: u32,
    mode: u32,
    skip: u32,
    launched: u32,
    code: u32,
    variant: u32,
    slot_count: u32,
    items: u64,
    build_ns: u64,
    extra_bytes: u64,
    mask: u64,
    signature: [u8; 16],
}
#[repr(C)]
struct ReportSlot {
    size: u32,
    param: u32,
    is_add: u32,
    backing: u32,
    policy: u32,
    requires_grad: u32,
    flags: u64,
    bytes: u64,
    reason: [c_char; 128],
}
// What a host kernel is handed: this head, then one view per tensor.
#[repr(C)]
struct Block {
    abi: u32,
    size_bytes: u32,
    items: u64,
    tensor_count: u32,
    scalar_count: u32,
    flags: u64,
}
#[repr(C)]
struct DeviceTensor {
    data: u64,
    grad_add: u64,
    grad_read: u64,
    dtype: u32,
    grad_dtype: u32,
    flags: u32,
    rank: u32,
    shape: [i64; 8],
    stride: [i64; 8],
    add_stride: [i64; 8],
    read_stride: [i64; 8],
    scale: f64,
    sticky: u64,
    limit: f64,
}

#[link(name = "diffdispatch")]
extern "C" {
    fn ddisp_status_name(status: u32) -> *const c_char;
    fn ddisp_last_error(buffer: *mut c_char, capacity: u64, length: *mut u64) -> u32;
    fn ddisp_context_create(desc: *const c_void, out: *mut *mut c_void) -> u32;
    fn ddisp_context_release(context: *mut c_void);
    fn ddisp_device_open(context: *mut c_void, spec: *const c_char, out: *mut *mut c_void) -> u32;
    fn ddisp_device_release(device: *mut c_void);
    fn ddisp_kernel_create(context: *mut c_void, desc: *const KernelDesc, out: *mut *mut c_void) -> u32;
    fn ddisp_kernel_release(kernel: *mut c_void);
    fn ddisp_tensor_create(device: *mut c_void, dtype: u32, rank: u32, shape: *const i64, flags: u64, out: *mut *mut c_void) -> u32;
    fn ddisp_tensor_release(tensor: *mut c_void);
    fn ddisp_tensor_write(tensor: *mut c_void, data: *const c_void, size_bytes: u64, stream: *mut c_void) -> u32;
    fn ddisp_tensor_read(tensor: *mut c_void, data: *mut c_void, size_bytes: u64, stream: *mut c_void) -> u32;
    fn ddisp_tensor_grad(tensor: *mut c_void, out: *mut *mut c_void) -> u32;
    fn ddisp_tensor_set_grad(tensor: *mut c_void, grad: *mut c_void) -> u32;
    fn ddisp_report_create(context: *mut c_void, out: *mut *mut c_void) -> u32;
    fn ddisp_report_release(report: *mut c_void);
    fn ddisp_report_get_info(report: *const c_void, out: *mut ReportInfo) -> u32;
    fn ddisp_report_get_slot(report: *const c_void, index: u32, out: *mut ReportSlot) -> u32;
    fn ddisp_backing_name(backing: u32) -> *const c_char;
    fn ddisp_launch(kernel: *mut c_void, mode: u32, args: *const Arg, count: u32, options: *const LaunchOptions, stream: *mut c_void) -> u32;
}

const NO_GRADIENT: u32 = 6;
const F32: u32 = 12;
const REQUIRES_GRAD: u64 = 1;
const FORWARD: u32 = 1;
const BACKWARD: u32 = 2;
const IN: u32 = 1;
const OUT: u32 = 2;
const DIFFERENTIABLE: u64 = 1;
const ENTRY_LOOPS: u64 = 2;
const NULL_SAFE: u64 = 1;
const ANY_LAYOUT: u64 = 4;
const PLAIN_ADD: u32 = 1;

fn text(name: *const c_char) -> String {
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

fn check(status: u32, what: &str) -> Result<(), String> {
    if status == 0 {
        return Ok(());
    }
    let mut message = [0 as c_char; 512];
    unsafe { ddisp_last_error(message.as_mut_ptr(), 512, null_mut()) };
    Err(format!("{}: {}: {}", what, text(unsafe { ddisp_status_name(status) }), text(message.as_ptr())))
}

// An owned handle, which is given back when it goes.
struct Owned(*mut c_void, unsafe extern "C" fn(*mut c_void));
impl Drop for Owned {
    fn drop(&mut self) {
        unsafe { (self.1)(self.0) }
    }
}
fn own(what: &str, release: unsafe extern "C" fn(*mut c_void), make: impl FnOnce(*mut *mut c_void) -> u32) -> Result<Owned, String> {
    let mut made = null_mut();
    check(make(&mut made), what)?;
    Ok(Owned(made, release))
}

// ---- the kernel for the host, in Rust: items begin to end - 1, one thread for each

unsafe fn tensors<'a>(block: *const Block) -> &'a [DeviceTensor] {
    std::slice::from_raw_parts(block.add(1) as *const DeviceTensor, (*block).tensor_count as usize)
}

unsafe extern "C" fn mul_forward(block: *const Block, begin: u64, end: u64) {
    let t = tensors(block);
    for i in begin as usize..end as usize {
        *(t[2].data as *mut f32).add(i) = *(t[0].data as *const f32).add(i) * *(t[1].data as *const f32).add(i);
    }
}

// A frozen input has no gradient: its address is 0 and is not touched.
unsafe extern "C" fn mul_backward(block: *const Block, begin: u64, end: u64) {
    let t = tensors(block);
    for (into, other) in [(0, 1), (1, 0)] {
        if t[into].grad_add == 0 {
            continue;
        }
        for i in begin as usize..end as usize {
            *(t[into].grad_add as *mut f32).add(i) +=
                *(t[2].grad_read as *const f32).add(i) * *(t[other].data as *const f32).add(i);
        }
    }
}

fn entry(mode: u32, name: *const c_char, function: Option<HostFunction>) -> Entry {
    Entry {
        mode, group_size: [if function.is_some() { 0 } else { 256 }, 1, 1], name, function, function_id: mode as u64, mask: 0,
        flags: if function.is_some() { 0 } else { ENTRY_LOOPS }, native: null(), native_count: 0, shared_bytes: 0,
    }
}

fn make_kernel(context: &Owned, folder: &str, vulkan: bool) -> Result<Owned, String> {
    let words = |s: &str| CString::new(s).unwrap();
    let (main, name, a, b, y) = (words("main"), words("mul"), words("a"), words("b"), words("y"));
    let (host, function, gpu, spirv) = (words("host"), words("host-function"), words("vulkan"), words("spirv"));
    let param = |name: &CString, access| Param { name: name.as_ptr(), kind: 0, access, dtype: F32, rank: 1, flags: DIFFERENTIABLE };
    let params = [param(&a, IN), param(&b, IN), param(&y, OUT)];
    let code = |backend: &CString, format: &CString, bytes: &[u8], entries: &[Entry], params: &[CodeParam], flags| Code {
        backend: backend.as_ptr(), format: format.as_ptr(),
        bytes: if bytes.is_empty() { null() } else { bytes.as_ptr() as *const c_void }, size_bytes: bytes.len() as u64,
        entries: entries.as_ptr(), entry_count: entries.len() as u32, entry_size: std::mem::size_of::<Entry>() as u32,
        params: params.as_ptr(), param_count: params.len() as u32, param_size: std::mem::size_of::<CodeParam>() as u32,
        options: null(), flags, headers: null(), header_count: 0, header_size: 0,
    };
    let read = |file: &str| {
        let path = format!("{}/{}", folder, file);
        std::fs::read(&path).map_err(|error| format!("{}: {}", path, error))
    };
    let functions = [entry(FORWARD, null(), Some(mul_forward)), entry(BACKWARD, null(), Some(mul_backward))];
    let plain = [CodeParam { param: 0, write_mode: PLAIN_ADD, ..Default::default() },
                 CodeParam { param: 1, write_mode: PLAIN_ADD, ..Default::default() }];
    let (forward, backward) = ([entry(FORWARD, main.as_ptr(), None)], [entry(BACKWARD, main.as_ptr(), None)]);
    let mut codes = vec![code(&host, &function, &[], &functions, &plain, NULL_SAFE)];
    let mut modules = Vec::new();
    if vulkan {
        // The second backward module is for devices without native float atomics.
        modules = vec![(read("mul_forward.spv")?, &forward), (read("mul_backward.spv")?, &backward), (read("mul_backward_cas.spv")?, &backward)];
    }
    for (bytes, entries) in &modules {
        codes.push(code(&gpu, &spirv, bytes, &entries[..], &[], NULL_SAFE | ANY_LAYOUT));
    }
    let desc = KernelDesc {
        size: std::mem::size_of::<KernelDesc>() as u32, variant_budget: 0, next: null(), name: name.as_ptr(),
        params: params.as_ptr(), param_count: 3, param_size: std::mem::size_of::<Param>() as u32,
        codes: codes.as_ptr(), code_count: codes.len() as u32, code_size: std::mem::size_of::<Code>() as u32, flags: 0,
    };
    own("kernel", ddisp_kernel_release, |out| unsafe { ddisp_kernel_create(context.0, &desc, out) })
}

// ---- the job

struct Job {
    report: Owned,
    kernel: Owned,
    device: Owned,
    _context: Owned,
    values: [Vec<f32>; 3], // a, b and the upstream gradient
}

fn tensor(job: &Job, values: Option<&[f32]>, requires_grad: bool) -> Result<Owned, String> {
    let shape = [job.values[0].len() as i64];
    let made = own("tensor", ddisp_tensor_release, |out| unsafe {
        ddisp_tensor_create(job.device.0, F32, 1, shape.as_ptr(), if requires_grad { REQUIRES_GRAD } else { 0 }, out)
    })?;
    if let Some(values) = values {
        check(unsafe { ddisp_tensor_write(made.0, values.as_ptr() as *const c_void, values.len() as u64 * 4, null_mut()) }, "write")?;
    }
    Ok(made)
}

// Whether a tensor holds x * y: one product, rounded once.
fn is_product(tensor: &Owned, x: &[f32], y: &[f32]) -> Result<bool, String> {
    let mut got = vec![0f32; x.len()];
    check(unsafe { ddisp_tensor_read(tensor.0, got.as_mut_ptr() as *mut c_void, got.len() as u64 * 4, null_mut()) }, "read")?;
    Ok((0..x.len()).all(|i| {
        let wanted = x[i] as f64 * y[i] as f64;
        (got[i] as f64 - wanted).abs() <= wanted.abs() * (0.5f64).powi(23) + 1.2e-38
    }))
}

// A gradient in a word.
fn gradient(job: &Job, input: &Owned, requires_grad: bool, other: &[f32]) -> Result<&'static str, String> {
    let mut raw = null_mut();
    let status = unsafe { ddisp_tensor_grad(input.0, &mut raw) };
    if !requires_grad {
        return Ok(if status == NO_GRADIENT && raw.is_null() { "none" } else { "WRONG" });
    }
    check(status, "gradient")?;
    Ok(if is_product(&Owned(raw, ddisp_tensor_release), &job.values[2], other)? { "right" } else { "WRONG" })
}

// One mixture. Prints its row; whether it is right.
fn row(job: &Job, spec: &str, grads: [bool; 2]) -> Result<bool, String> {
    let (a, b) = (tensor(job, Some(&job.values[0]), grads[0])?, tensor(job, Some(&job.values[1]), grads[1])?);
    let (y, upstream) = (tensor(job, None, true)?, tensor(job, Some(&job.values[2]), false)?);
    let arg = |t: &Owned| Arg {
        tensor: t.0, view: null(), grad_add: 0, grad_read: 0, scalar: null(), scalar_size: 0, policy: 0, flags: 0, reserved: 0,
    };
    let args = [arg(&a), arg(&b), arg(&y)];
    let options = LaunchOptions {
        size: std::mem::size_of::<LaunchOptions>() as u32, policy: 0, next: null(), flags: 0, items: [0; 3], grid: [0; 3],
        reserved: 0, device: null_mut(), error: null_mut(), report: job.report.0,
        bounds: null(), bound_count: 0, bound_size: 0,
    };
    check(unsafe { ddisp_launch(job.kernel.0, FORWARD, args.as_ptr(), 3, null(), null_mut()) }, "forward")?;
    if !is_product(&y, &job.values[0], &job.values[1])? {
        return Err("y is not a * b".to_string());
    }
    check(unsafe { ddisp_tensor_set_grad(y.0, upstream.0) }, "upstream")?;
    check(unsafe { ddisp_launch(job.kernel.0, BACKWARD, args.as_ptr(), 3, &options, null_mut()) }, "backward")?;

    let mut backing = ["none".to_string(), "none".to_string()];
    let mut info: ReportInfo = unsafe { std::mem::zeroed() };
    info.size = std::mem::size_of::<ReportInfo>() as u32;
    check(unsafe { ddisp_report_get_info(job.report.0, &mut info) }, "report")?;
    for i in 0..info.slot_count {
        let mut slot: ReportSlot = unsafe { std::mem::zeroed() };
        slot.size = std::mem::size_of::<ReportSlot>() as u32;
        check(unsafe { ddisp_report_get_slot(job.report.0, i, &mut slot) }, "report")?;
        if slot.is_add != 0 && slot.param < 2 {
            backing[slot.param as usize] = text(unsafe { ddisp_backing_name(slot.backing) });
        }
    }
    let words = [gradient(job, &a, grads[0], &job.values[1])?, gradient(job, &b, grads[1], &job.values[0])?];
    let asked = |grad| if grad { "grad" } else { "frozen" };
    println!("{:<9} {:<7} {:<7} {:<8} {:<8} {:<7} {}", spec, asked(grads[0]), asked(grads[1]), backing[0], backing[1], words[0], words[1]);
    Ok((0..2).all(|i| words[i] == if grads[i] { "right" } else { "none" }))
}

fn run(spec: &str, folder: &str, n: usize) -> Result<bool, String> {
    let context = own("context", ddisp_context_release, |out| unsafe { ddisp_context_create(null(), out) })?;
    let name = CString::new(spec).map_err(|error| error.to_string())?;
    let device = own(spec, ddisp_device_release, |out| unsafe { ddisp_device_open(context.0, name.as_ptr(), out) })?;
    let kernel = make_kernel(&context, folder, spec.starts_with("vulkan"))?;
    let report = own("report", ddisp_report_release, |out| unsafe { ddisp_report_create(context.0, out) })?;
    let numbers = |step: usize| (0..n).map(|i| ((i * step) % 10007) as f32 / 10007.0 - 0.5).collect::<Vec<f32>>();
    let job = Job { report, kernel, device, _context: context, values: [numbers(7919), numbers(104729), numbers(1299709)] };

    println!("{:<9} {:<7} {:<7} {:<8} {:<8} {:<7} {}", "device", "a", "b", "slot a", "slot b", "grad a", "grad b");
    let mut right = true;
    for grads in [[true, true], [true, false], [false, true], [false, false]] {
        right &= row(&job, spec, grads)?;
    }
    Ok(right)
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let word = |i: usize, otherwise: &str| words.get(i).cloned().unwrap_or_else(|| otherwise.to_string());
    let result = match word(3, "100003").parse() {
        Ok(n) if n > 0 => run(&word(1, "host"), &word(2, "build/examples/ffi"), n),
        _ => Err("usage: mixed_grad_rust [DEVICE [FOLDER [N]]]".to_string()),
    };
    std::process::exit(match result {
        Ok(right) => !right as i32,
        Err(message) => {
            eprintln!("mixed_grad: {}", message);
            1
        }
    })
}
