// mixed_grad.go - the mixed-gradient job in Go: y = a * b backward, with every mixture of frozen inputs and inputs that require a
// gradient. cgo reads the C headers; the host kernel is Go, exported to C.
//
// usage: mixed_grad_go [DEVICE [FOLDER [N]]]
//
//	DEVICE  host (the kernel is in Go, in this file) or vulkan:0 (the kernel is SPIR-V); default: host
//	FOLDER  where mul_forward.spv, mul_backward.spv and mul_backward_cas.spv are; default: build/examples/ffi
//	N       elements; default: 100003
//
// Exits 0 only when every gradient is what the double reference says, and no frozen input has one.
package main

/*
#cgo LDFLAGS: -ldiffdispatch
#include <diffdispatch/device/ddisp_block.h>
#include <diffdispatch/diffdispatch.h>
#include <stdlib.h>

extern void goMulForward(struct ddisp_block *block, uint64_t begin, uint64_t end);
extern void goMulBackward(struct ddisp_block *block, uint64_t begin, uint64_t end);
*/
import "C"

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"
)

// ---- the kernel for the host, in Go: items begin to end - 1, one thread for each

func view(block *C.struct_ddisp_block, i int) *C.ddisp_device_tensor {
	at := unsafe.Add(unsafe.Pointer(block), unsafe.Sizeof(*block))
	return (*C.ddisp_device_tensor)(unsafe.Add(at, i*C.sizeof_ddisp_device_tensor))
}

// Elements begin to end - 1 behind an address of the device, which on the host is a pointer. It comes as a number, and is read
// back as the pointer that it is.
func floats(address *C.uint64_t, begin, end C.uint64_t) []float32 {
	first := *(**float32)(unsafe.Pointer(address))
	return unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(first), 4*int(begin))), int(end-begin))
}

//export goMulForward
func goMulForward(block *C.struct_ddisp_block, begin, end C.uint64_t) {
	a, b := floats(&view(block, 0).data, begin, end), floats(&view(block, 1).data, begin, end)
	y := floats(&view(block, 2).data, begin, end)
	for i := range y {
		y[i] = a[i] * b[i]
	}
}

//export goMulBackward
func goMulBackward(block *C.struct_ddisp_block, begin, end C.uint64_t) {
	upstream := floats(&view(block, 2).grad_read, begin, end)
	for into := 0; into < 2; into++ {
		if view(block, into).grad_add == 0 { // frozen: there is nothing to add to
			continue
		}
		gradient, other := floats(&view(block, into).grad_add, begin, end), floats(&view(block, 1-into).data, begin, end)
		for i := range gradient {
			gradient[i] += upstream[i] * other[i]
		}
	}
}

// ---- the C API

func check(status C.ddisp_status, what string) {
	if status != C.DDISP_STATUS_OK {
		var message [512]C.char
		C.ddisp_last_error(&message[0], 512, nil)
		panic(fmt.Errorf("%s: %s: %s", what, C.GoString(C.ddisp_status_name(status)), C.GoString(&message[0])))
	}
}

// An array in C's memory: what is in it may point to other memory of C.
func array[T any](values ...T) *T {
	first := (*T)(C.calloc(C.size_t(len(values)+1), C.size_t(unsafe.Sizeof(values[0]))))
	copy(unsafe.Slice(first, len(values)), values)
	return first
}

func makeKernel(context *C.ddisp_context, folder string, vulkan bool) (kernel *C.ddisp_kernel) {
	param := func(name string, access C.ddisp_access) C.ddisp_param {
		return C.ddisp_param{name: C.CString(name), access: access, dtype: C.DDISP_DTYPE_F32, rank: 1, flags: C.DDISP_PARAM_DIFFERENTIABLE}
	}
	function := func(mode C.ddisp_mode, pointer unsafe.Pointer) C.ddisp_entry {
		return C.ddisp_entry{mode: mode, function: C.ddisp_host_function(pointer), function_id: C.uint64_t(mode)}
	}
	codes := []C.ddisp_code{{
		backend: C.CString("host"), format: C.CString("host-function"),
		entries:     array(function(C.DDISP_MODE_FORWARD, C.goMulForward), function(C.DDISP_MODE_BACKWARD, C.goMulBackward)),
		entry_count: 2, entry_size: C.sizeof_ddisp_entry,
		params: array(C.ddisp_code_param{param: 0, write_mode: C.DDISP_WRITE_MODE_PLAIN_ADD},
			C.ddisp_code_param{param: 1, write_mode: C.DDISP_WRITE_MODE_PLAIN_ADD}),
		param_count: 2, param_size: C.sizeof_ddisp_code_param,
		flags: C.DDISP_CODE_NULL_SAFE,
	}}
	module := func(file string, mode C.ddisp_mode) {
		bytes, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			panic(err)
		}
		entry := C.ddisp_entry{mode: mode, group_size: [3]C.uint32_t{256, 1, 1}, name: C.CString("main"), flags: C.DDISP_ENTRY_LOOPS}
		codes = append(codes, C.ddisp_code{
			backend: C.CString("vulkan"), format: C.CString("spirv"), bytes: C.CBytes(bytes), size_bytes: C.uint64_t(len(bytes)),
			entries: array(entry), entry_count: 1, entry_size: C.sizeof_ddisp_entry,
			flags: C.DDISP_CODE_NULL_SAFE | C.DDISP_CODE_ANY_LAYOUT,
		})
	}
	if vulkan {
		module("mul_forward.spv", C.DDISP_MODE_FORWARD)
		module("mul_backward.spv", C.DDISP_MODE_BACKWARD)
		module("mul_backward_cas.spv", C.DDISP_MODE_BACKWARD) // for devices without native float atomics
	}
	desc := C.ddisp_kernel_desc{
		size: C.sizeof_ddisp_kernel_desc, name: C.CString("mul"),
		params:      array(param("a", C.DDISP_ACCESS_IN), param("b", C.DDISP_ACCESS_IN), param("y", C.DDISP_ACCESS_OUT)),
		param_count: 3, param_size: C.sizeof_ddisp_param,
		codes: array(codes...), code_count: C.uint32_t(len(codes)), code_size: C.sizeof_ddisp_code,
	}
	// The program makes one kernel, so what describes it is left to its end.
	check(C.ddisp_kernel_create(context, &desc, &kernel), "kernel")
	return kernel
}

// ---- the job

type job struct {
	device *C.ddisp_device
	kernel *C.ddisp_kernel
	report *C.ddisp_report
	values [3][]float32 // a, b and the upstream gradient
}

func (on *job) tensor(values []float32, requiresGrad bool) (made *C.ddisp_tensor) {
	shape, flags := C.int64_t(len(on.values[0])), C.uint64_t(0)
	if requiresGrad {
		flags = C.DDISP_TENSOR_REQUIRES_GRAD
	}
	check(C.ddisp_tensor_create(on.device, C.DDISP_DTYPE_F32, 1, &shape, flags, &made), "tensor")
	if values != nil {
		check(C.ddisp_tensor_write(made, unsafe.Pointer(&values[0]), C.uint64_t(4*len(values)), nil), "write")
	}
	return made
}

// Whether a tensor holds x * y: one product, rounded once.
func isProduct(tensor *C.ddisp_tensor, x, y []float32) bool {
	got := make([]float32, len(x))
	check(C.ddisp_tensor_read(tensor, unsafe.Pointer(&got[0]), C.uint64_t(4*len(got)), nil), "read")
	for i := range got {
		wanted := float64(x[i]) * float64(y[i])
		if !(math.Abs(float64(got[i])-wanted) <= math.Abs(wanted)*0x1p-23+1.2e-38) {
			return false
		}
	}
	return true
}

// A gradient in a word.
func (on *job) gradient(input *C.ddisp_tensor, requiresGrad bool, other []float32) string {
	var gradient *C.ddisp_tensor
	status := C.ddisp_tensor_grad(input, &gradient)
	defer func() { C.ddisp_tensor_release(gradient) }()
	switch {
	case !requiresGrad && status == C.DDISP_STATUS_NO_GRADIENT && gradient == nil:
		return "none"
	case !requiresGrad:
		return "WRONG"
	}
	check(status, "gradient")
	if isProduct(gradient, on.values[2], other) {
		return "right"
	}
	return "WRONG"
}

// One mixture. Prints its row; whether it is right.
func (on *job) row(spec string, grads [2]bool) bool {
	a, b := on.tensor(on.values[0], grads[0]), on.tensor(on.values[1], grads[1])
	y, upstream := on.tensor(nil, true), on.tensor(on.values[2], false)
	for _, tensor := range []*C.ddisp_tensor{a, b, y, upstream} {
		defer C.ddisp_tensor_release(tensor)
	}
	args := [3]C.ddisp_arg{{tensor: a}, {tensor: b}, {tensor: y}}
	options := C.ddisp_launch_options{size: C.sizeof_ddisp_launch_options, report: on.report}
	check(C.ddisp_launch(on.kernel, C.DDISP_MODE_FORWARD, &args[0], 3, nil, nil), "forward")
	if !isProduct(y, on.values[0], on.values[1]) {
		panic(fmt.Errorf("y is not a * b"))
	}
	check(C.ddisp_tensor_set_grad(y, upstream), "upstream")
	check(C.ddisp_launch(on.kernel, C.DDISP_MODE_BACKWARD, &args[0], 3, &options, nil), "backward")

	backing := [2]string{"none", "none"}
	info := C.ddisp_report_info{size: C.sizeof_ddisp_report_info}
	check(C.ddisp_report_get_info(on.report, &info), "report")
	for i := C.uint32_t(0); i < info.slot_count; i++ {
		slot := C.ddisp_report_slot{size: C.sizeof_ddisp_report_slot}
		check(C.ddisp_report_get_slot(on.report, i, &slot), "report")
		if slot.is_add != 0 && slot.param < 2 {
			backing[slot.param] = C.GoString(C.ddisp_backing_name(slot.backing))
		}
	}
	words := [2]string{on.gradient(a, grads[0], on.values[1]), on.gradient(b, grads[1], on.values[0])}
	asked := map[bool]string{false: "frozen", true: "grad"}
	fmt.Printf("%-9s %-7s %-7s %-8s %-8s %-7s %s\n", spec, asked[grads[0]], asked[grads[1]], backing[0], backing[1], words[0], words[1])
	wanted := map[bool]string{false: "none", true: "right"}
	return words[0] == wanted[grads[0]] && words[1] == wanted[grads[1]]
}

func run(spec, folder string, n int) bool {
	var context *C.ddisp_context
	var on job
	check(C.ddisp_context_create(nil, &context), "context")
	defer C.ddisp_context_release(context)
	name := C.CString(spec)
	defer C.free(unsafe.Pointer(name))
	check(C.ddisp_device_open(context, name, &on.device), spec)
	defer C.ddisp_device_release(on.device)
	on.kernel = makeKernel(context, folder, strings.HasPrefix(spec, "vulkan"))
	defer C.ddisp_kernel_release(on.kernel)
	check(C.ddisp_report_create(context, &on.report), "report")
	defer C.ddisp_report_release(on.report)
	for k, step := range [3]int{7919, 104729, 1299709} {
		for i := 0; i < n; i++ {
			on.values[k] = append(on.values[k], float32(i*step%10007)/10007-0.5)
		}
	}

	fmt.Printf("%-9s %-7s %-7s %-8s %-8s %-7s %s\n", "device", "a", "b", "slot a", "slot b", "grad a", "grad b")
	right := true
	for _, grads := range [4][2]bool{{true, true}, {true, false}, {false, true}, {false, false}} {
		right = on.row(spec, grads) && right
	}
	return right
}

func main() {
	runtime.LockOSThread() // a failure's message belongs to the thread of the call
	defer func() {
		if failure := recover(); failure != nil {
			fmt.Fprintln(os.Stderr, "mixed_grad:", failure)
			os.Exit(1)
		}
	}()
	arguments := [3]string{"host", "build/examples/ffi", "100003"}
	copy(arguments[:], os.Args[1:])
	n, err := strconv.Atoi(arguments[2])
	if err != nil || n < 1 || len(os.Args) > 4 {
		panic("usage: mixed_grad_go [DEVICE [FOLDER [N]]]")
	}
	if !run(arguments[0], arguments[1], n) {
		os.Exit(1)
	}
}
