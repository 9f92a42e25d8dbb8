! mixed_grad.f90 - the mixed-gradient job in Fortran: y = a * b backward, with every mixture of frozen inputs and inputs that
! require a gradient. The C API is declared below as far as it is used, with iso_c_binding.
!
! usage: mixed_grad_fortran [DEVICE [FOLDER [N]]]
!   DEVICE  host (the kernel is in Fortran, in this file) or vulkan:0 (the kernel is SPIR-V); default: host
!   FOLDER  where mul_forward.spv, mul_backward.spv and mul_backward_cas.spv are; default: build/examples/ffi
!   N       elements; default: 100003
! Exits 0 only when every gradient is what the double reference says, and no frozen input has one.

module ddisp
    use, intrinsic :: iso_c_binding
    implicit none

    integer(c_int32_t), parameter :: NO_GRADIENT = 6, F32 = 12, FORWARD = 1, BACKWARD = 2, ACCESS_IN = 1, ACCESS_OUT = 2
    integer(c_int32_t), parameter :: PLAIN_ADD = 1
    integer(c_int64_t), parameter :: REQUIRES_GRAD = 1, DIFFERENTIABLE = 1, ENTRY_LOOPS = 2, NULL_SAFE = 1, ANY_LAYOUT = 4

    type, bind(C) :: param_type
        type(c_ptr) :: name = c_null_ptr
        integer(c_int32_t) :: kind = 0, access = 0, dtype = F32, rank = 1
        integer(c_int64_t) :: flags = DIFFERENTIABLE
    end type
    type, bind(C) :: entry_type
        integer(c_int32_t) :: mode = 0, group_size(3) = 0
        type(c_ptr) :: name = c_null_ptr
        type(c_funptr) :: function = c_null_funptr
        integer(c_int64_t) :: function_id = 0, mask = 0, flags = 0
        type(c_ptr) :: native = c_null_ptr
        integer(c_int32_t) :: native_count = 0, shared_bytes = 0
    end type
    type, bind(C) :: code_param_type
        integer(c_int32_t) :: param = 0, write_mode = PLAIN_ADD, grad_dtype = 0, layouts = 0, grad_layouts = 0, &
            alignment = 0, switch_id = 0, reserved = 0
    end type
    type, bind(C) :: code_type
        type(c_ptr) :: backend = c_null_ptr, format = c_null_ptr, bytes = c_null_ptr
        integer(c_int64_t) :: size_bytes = 0
        type(c_ptr) :: entries = c_null_ptr
        integer(c_int32_t) :: entry_count = 0, entry_size = 0
        type(c_ptr) :: params = c_null_ptr
        integer(c_int32_t) :: param_count = 0, param_size = 0
        type(c_ptr) :: options = c_null_ptr
        integer(c_int64_t) :: flags = 0
        type(c_ptr) :: headers = c_null_ptr
        integer(c_int32_t) :: header_count = 0, header_size = 0
    end type
    type, bind(C) :: kernel_desc_type
        integer(c_int32_t) :: size = 0, variant_budget = 0
        type(c_ptr) :: next = c_null_ptr, name = c_null_ptr, params = c_null_ptr
        integer(c_int32_t) :: param_count = 0, param_size = 0
        type(c_ptr) :: codes = c_null_ptr
        integer(c_int32_t) :: code_count = 0, code_size = 0
        integer(c_int64_t) :: flags = 0
    end type
    type, bind(C) :: arg_type
        type(c_ptr) :: tensor = c_null_ptr, view = c_null_ptr
        integer(c_int64_t) :: grad_add = 0, grad_read = 0
        type(c_ptr) :: scalar = c_null_ptr
        integer(c_int32_t) :: scalar_size = 0, policy = 0
        integer(c_int64_t) :: flags = 0, reserved = 0
    end type
    type, bind(C) :: launch_options_type
        integer(c_int32_t) :: size = 0, policy = 0
        type(c_ptr) :: next = c_null_ptr
        integer(c_int64_t) :: flags = 0, items(3) = 0
        integer(c_int32_t) :: grid(3) = 0, reserved = 0
        type(c_ptr) :: device = c_null_ptr, error = c_null_ptr, report = c_null_ptr, bounds = c_null_ptr
        integer(c_int32_t) :: bound_count = 0, bound_size = 0
    end type
    type, bind(C) :: report_info_type
        integer(c_int32_t) :: size = 0, status = 0, mode = 0, skip = 0, launched = 0, code = 0, variant = 0, slot_count = 0
        integer(c_int64_t) :: items = 0, build_ns = 0, extra_bytes = 0, mask = 0
        integer(c_int8_t) :: signature(16) = 0
    end type
    type, bind(C) :: report_slot_type
        integer(c_int32_t) :: size = 0, param = 0, is_add = 0, backing = 0, policy = 0, requires_grad = 0
        integer(c_int64_t) :: flags = 0, bytes = 0
        integer(c_int8_t) :: reason(128) = 0
    end type

    ! What a host kernel is handed: this head, then one view per tensor.
    type, bind(C) :: block_type
        integer(c_int32_t) :: abi, size_bytes
        integer(c_int64_t) :: items
        integer(c_int32_t) :: tensor_count, scalar_count
        integer(c_int64_t) :: flags
    end type
    type, bind(C) :: device_tensor_type
        type(c_ptr) :: data, grad_add, grad_read
        integer(c_int32_t) :: dtype, grad_dtype, flags, rank
        integer(c_int64_t) :: shape(8), stride(8), add_stride(8), read_stride(8)
        real(c_double) :: scale
        integer(c_int64_t) :: sticky
        real(c_double) :: limit
    end type
    type, bind(C) :: mul_block_type
        type(block_type) :: head
        type(device_tensor_type) :: tensors(3)
    end type

    interface
        function ddisp_status_name(status) bind(C) result(name)
            import
            integer(c_int32_t), value :: status
            type(c_ptr) :: name
        end function
        function ddisp_last_error(buffer, capacity, out_length) bind(C) result(status)
            import
            character(kind=c_char), intent(out) :: buffer(*)
            integer(c_int64_t), value :: capacity
            integer(c_int64_t), intent(out) :: out_length
            integer(c_int32_t) :: status
        end function
        function ddisp_context_create(desc, out) bind(C) result(status)
            import
            type(c_ptr), value :: desc
            type(c_ptr), intent(out) :: out
            integer(c_int32_t) :: status
        end function
        subroutine ddisp_context_release(object) bind(C)
            import
            type(c_ptr), value :: object
        end subroutine
        function ddisp_device_open(context, spec, out) bind(C) result(status)
            import
            type(c_ptr), value :: context
            character(kind=c_char), intent(in) :: spec(*)
            type(c_ptr), intent(out) :: out
            integer(c_int32_t) :: status
        end function
        subroutine ddisp_device_release(object) bind(C)
            import
            type(c_ptr), value :: object
        end subroutine
        function ddisp_kernel_create(context, desc, out) bind(C) result(status)
            import
            type(c_ptr), value :: context
            type(kernel_desc_type), intent(in) :: desc
            type(c_ptr), intent(out) :: out
            integer(c_int32_t) :: status
        end function
        subroutine ddisp_kernel_release(object) bind(C)
            import
            type(c_ptr), value :: object
        end subroutine
        function ddisp_tensor_create(device, dtype, rank, shape, flags, out) bind(C) result(status)
            import
            type(c_ptr), value :: device
            integer(c_int32_t), value :: dtype, rank
            integer(c_int64_t), intent(in) :: shape(*)
            integer(c_int64_t), value :: flags
            type(c_ptr), intent(out) :: out
            integer(c_int32_t) :: status
        end function
        subroutine ddisp_tensor_release(object) bind(C)
            import
            type(c_ptr), value :: object
        end subroutine
        function ddisp_tensor_write(tensor, data, size_bytes, stream) bind(C) result(status)
            import
            type(c_ptr), value :: tensor, stream
            real(c_float), intent(in) :: data(*)
            integer(c_int64_t), value :: size_bytes
            integer(c_int32_t) :: status
        end function
        function ddisp_tensor_read(tensor, data, size_bytes, stream) bind(C) result(status)
            import
            type(c_ptr), value :: tensor, stream
            real(c_float), intent(out) :: data(*)
            integer(c_int64_t), value :: size_bytes
            integer(c_int32_t) :: status
        end function
        function ddisp_tensor_grad(tensor, out) bind(C) result(status)
            import
            type(c_ptr), value :: tensor
            type(c_ptr), intent(out) :: out
            integer(c_int32_t) :: status
        end function
        function ddisp_tensor_set_grad(tensor, grad) bind(C) result(status)
            import
            type(c_ptr), value :: tensor, grad
            integer(c_int32_t) :: status
        end function
        function ddisp_report_create(context, out) bind(C) result(status)
            import
            type(c_ptr), value :: context
            type(c_ptr), intent(out) :: out
            integer(c_int32_t) :: status
        end function
        subroutine ddisp_report_release(object) bind(C)
            import
            type(c_ptr), value :: object
        end subroutine
        function ddisp_report_get_info(report, info) bind(C) result(status)
            import
            type(c_ptr), value :: report
            type(report_info_type), intent(inout) :: info
            integer(c_int32_t) :: status
        end function
        function ddisp_report_get_slot(report, index, slot) bind(C) result(status)
            import
            type(c_ptr), value :: report
            integer(c_int32_t), value :: index
            type(report_slot_type), intent(inout) :: slot
            integer(c_int32_t) :: status
        end function
        function ddisp_backing_name(backing) bind(C) result(name)
            import
            integer(c_int32_t), value :: backing
            type(c_ptr) :: name
        end function
        function ddisp_launch(kernel, mode, args, count, options, stream) bind(C) result(status)
            import
            type(c_ptr), value :: kernel, stream
            integer(c_int32_t), value :: mode, count
            type(arg_type), intent(in) :: args(*)
            type(launch_options_type), intent(in) :: options
            integer(c_int32_t) :: status
        end function
        function strlen(text) bind(C) result(length)
            import
            type(c_ptr), value :: text
            integer(c_size_t) :: length
        end function
    end interface

contains

    ! A string of C.
    function text(name) result(found)
        type(c_ptr), intent(in) :: name
        character(:), allocatable :: found
        character(kind=c_char), pointer :: letters(:)
        integer :: i
        call c_f_pointer(name, letters, [strlen(name)])
        allocate (character(size(letters)) :: found)
        do i = 1, size(letters)
            found(i:i) = letters(i)
        end do
    end function

    subroutine check(status, what)
        use, intrinsic :: iso_fortran_env, only: error_unit
        integer(c_int32_t), intent(in) :: status
        character(*), intent(in) :: what
        character(kind=c_char), target :: message(512)
        integer(c_int64_t) :: length
        if (status == 0) return
        if (ddisp_last_error(message, 512_c_int64_t, length) /= 0) stop 1
        write (error_unit, '(a)') 'mixed_grad: '//what//': '//text(ddisp_status_name(status))//': '//text(c_loc(message))
        stop 1, quiet=.true.
    end subroutine

    ! ---- the kernel for the host, in Fortran: items begin to end - 1, one thread for each

    subroutine mul_forward(block, begin, end) bind(C)
        type(mul_block_type), intent(in) :: block
        integer(c_int64_t), value :: begin, end
        real(c_float), pointer :: a(:), b(:), y(:)
        call c_f_pointer(block%tensors(1)%data, a, [end])
        call c_f_pointer(block%tensors(2)%data, b, [end])
        call c_f_pointer(block%tensors(3)%data, y, [end])
        y(begin + 1:end) = a(begin + 1:end)*b(begin + 1:end)
    end subroutine

    ! A frozen input has no gradient: its address is null and is not touched.
    subroutine mul_backward(block, begin, end) bind(C)
        type(mul_block_type), intent(in) :: block
        integer(c_int64_t), value :: begin, end
        real(c_float), pointer :: gradient(:), other(:), upstream(:)
        integer :: into
        call c_f_pointer(block%tensors(3)%grad_read, upstream, [end])
        do into = 1, 2
            if (.not. c_associated(block%tensors(into)%grad_add)) cycle
            call c_f_pointer(block%tensors(into)%grad_add, gradient, [end])
            call c_f_pointer(block%tensors(3 - into)%data, other, [end])
            gradient(begin + 1:end) = gradient(begin + 1:end) + upstream(begin + 1:end)*other(begin + 1:end)
        end do
    end subroutine
end module

module job
    use ddisp
    implicit none

    type(c_ptr) :: context, device, kernel, report
    integer :: n
    real(c_float), allocatable :: values(:, :) ! a, b and the upstream gradient

contains

    subroutine make_kernel(folder, vulkan)
        character(*), intent(in) :: folder
        logical, intent(in) :: vulkan
        character(kind=c_char), target :: main(5) = ['m', 'a', 'i', 'n', c_null_char], mul(4) = ['m', 'u', 'l', c_null_char]
        character(kind=c_char), target :: names(2, 3) = reshape(['a', c_null_char, 'b', c_null_char, 'y', c_null_char], [2, 3])
        character(kind=c_char, len=20), target :: words(4)
        integer(c_int8_t), allocatable, target :: forward_module(:), backward_module(:), cas_module(:)
        type(param_type), target :: params(3)
        type(entry_type), target :: functions(2), modules(2)
        type(code_param_type), target :: plain(2)
        type(code_type), target :: codes(4)
        type(kernel_desc_type) :: desc
        integer :: i

        words = [character(20) :: 'host'//c_null_char, 'host-function'//c_null_char, 'vulkan'//c_null_char, 'spirv'//c_null_char]
        do i = 1, 3
            params(i)%name = c_loc(names(1, i))
            params(i)%access = merge(ACCESS_OUT, ACCESS_IN, i == 3)
        end do
        plain(2)%param = 1
        functions(1)%function = c_funloc(mul_forward)
        functions(2)%function = c_funloc(mul_backward)
        functions%mode = [FORWARD, BACKWARD]
        functions%function_id = functions%mode
        codes(1) = code_type(backend=c_loc(words(1)), format=c_loc(words(2)), entries=c_loc(functions), entry_count=2, &
            entry_size=int(c_sizeof(functions(1)), c_int32_t), params=c_loc(plain), param_count=2, &
            param_size=int(c_sizeof(plain(1)), c_int32_t), flags=NULL_SAFE)
        if (vulkan) then
            modules%mode = [FORWARD, BACKWARD]
            modules%flags = ENTRY_LOOPS
            do i = 1, 2
                modules(i)%name = c_loc(main)
                modules(i)%group_size = [256, 1, 1]
            end do
            call read_file(folder//'/mul_forward.spv', forward_module)
            call read_file(folder//'/mul_backward.spv', backward_module)
            call read_file(folder//'/mul_backward_cas.spv', cas_module) ! for devices without native float atomics
            codes(2) = spirv(forward_module, modules(1))
            codes(3) = spirv(backward_module, modules(2))
            codes(4) = spirv(cas_module, modules(2))
        end if
        desc%size = int(c_sizeof(desc), c_int32_t)
        desc%name = c_loc(mul)
        desc%params = c_loc(params)
        desc%param_count = 3
        desc%param_size = int(c_sizeof(params(1)), c_int32_t)
        desc%codes = c_loc(codes)
        desc%code_count = merge(4, 1, vulkan)
        desc%code_size = int(c_sizeof(codes(1)), c_int32_t)
        call check(ddisp_kernel_create(context, desc, kernel), 'kernel')

    contains

        function spirv(bytes, entry) result(code)
            integer(c_int8_t), intent(in), target :: bytes(:)
            type(entry_type), intent(in), target :: entry
            type(code_type) :: code
            code = code_type(backend=c_loc(words(3)), format=c_loc(words(4)), bytes=c_loc(bytes), &
                size_bytes=size(bytes, kind=c_int64_t), entries=c_loc(entry), entry_count=1, &
                entry_size=int(c_sizeof(entry), c_int32_t), flags=ior(NULL_SAFE, ANY_LAYOUT))
        end function
    end subroutine

    subroutine read_file(path, bytes)
        character(*), intent(in) :: path
        integer(c_int8_t), allocatable, intent(out) :: bytes(:)
        character(200) :: message
        integer :: unit, length, status
        open (newunit=unit, file=path, access='stream', form='unformatted', status='old', action='read', iostat=status, &
            iomsg=message)
        if (status /= 0) call stop_with(trim(message))
        inquire (unit=unit, size=length)
        allocate (bytes(length))
        read (unit) bytes
        close (unit)
    end subroutine

    subroutine stop_with(message)
        use, intrinsic :: iso_fortran_env, only: error_unit
        character(*), intent(in) :: message
        write (error_unit, '(a)') 'mixed_grad: '//message
        stop 1, quiet=.true.
    end subroutine

    function tensor(requires, column) result(made)
        logical, intent(in) :: requires
        integer, intent(in), optional :: column
        type(c_ptr) :: made
        call check(ddisp_tensor_create(device, F32, 1, [int(n, c_int64_t)], merge(REQUIRES_GRAD, 0_c_int64_t, requires), made), &
            'tensor')
        if (present(column)) call check(ddisp_tensor_write(made, values(:, column), 4_c_int64_t*n, c_null_ptr), 'write')
    end function

    ! Whether a tensor holds x * y: one product, rounded once.
    function is_product(held, x, y) result(right)
        type(c_ptr), intent(in) :: held
        integer, intent(in) :: x, y
        logical :: right
        real(c_float), allocatable :: got(:)
        real(c_double), allocatable :: wanted(:)
        allocate (got(n))
        call check(ddisp_tensor_read(held, got, 4_c_int64_t*n, c_null_ptr), 'read')
        wanted = real(values(:, x), c_double)*real(values(:, y), c_double)
        right = all(abs(got - wanted) <= abs(wanted)*2d0**(-23) + 1.2d-38)
    end function

    ! A gradient in a word.
    function gradient(input, requires, other) result(word)
        type(c_ptr), intent(in) :: input
        logical, intent(in) :: requires
        integer, intent(in) :: other
        character(5) :: word
        type(c_ptr) :: found
        integer(c_int32_t) :: status
        status = ddisp_tensor_grad(input, found)
        word = 'WRONG'
        if (.not. requires) then
            if (status == NO_GRADIENT .and. .not. c_associated(found)) word = 'none'
            return
        end if
        call check(status, 'gradient')
        if (is_product(found, 3, other)) word = 'right'
        call ddisp_tensor_release(found)
    end function

    ! One mixture. Prints its row; whether it is right.
    function row(spec, grads) result(right)
        character(*), intent(in) :: spec
        logical, intent(in) :: grads(2)
        logical :: right
        type(c_ptr) :: a, b, y, upstream
        type(arg_type) :: args(3)
        type(launch_options_type) :: options
        type(report_info_type) :: info
        type(report_slot_type) :: slot
        character(8) :: backing(2)
        character(5) :: words(2)
        integer :: i
        a = tensor(grads(1), 1)
        b = tensor(grads(2), 2)
        y = tensor(.true.)
        upstream = tensor(.false., 3)
        args(1)%tensor = a
        args(2)%tensor = b
        args(3)%tensor = y
        options%size = int(c_sizeof(options), c_int32_t)
        options%report = report
        call check(ddisp_launch(kernel, FORWARD, args, 3, options, c_null_ptr), 'forward')
        if (.not. is_product(y, 1, 2)) call stop_with('y is not a * b')
        call check(ddisp_tensor_set_grad(y, upstream), 'upstream')
        call check(ddisp_launch(kernel, BACKWARD, args, 3, options, c_null_ptr), 'backward')

        backing = 'none'
        info%size = int(c_sizeof(info), c_int32_t)
        call check(ddisp_report_get_info(report, info), 'report')
        do i = 0, info%slot_count - 1
            slot%size = int(c_sizeof(slot), c_int32_t)
            call check(ddisp_report_get_slot(report, i, slot), 'report')
            if (slot%is_add /= 0 .and. slot%param < 2) backing(slot%param + 1) = text(ddisp_backing_name(slot%backing))
        end do
        words = [gradient(a, grads(1), 2), gradient(b, grads(2), 1)]
        print '(a9, 1x, a7, 1x, a7, 1x, a8, 1x, a8, 1x, a7, 1x, a)', [character(9) :: spec], &
            merge(['grad   ', 'grad   '], ['frozen ', 'frozen '], grads), backing, [character(7) :: words(1)], trim(words(2))
        right = all(words == merge(['right', 'right'], ['none ', 'none '], grads))
        call ddisp_tensor_release(upstream)
        call ddisp_tensor_release(y)
        call ddisp_tensor_release(b)
        call ddisp_tensor_release(a)
    end function
end module

program mixed_grad
    use job
    implicit none
    character(256) :: spec = 'host', folder = 'build/examples/ffi', number = '100003'
    integer(c_int64_t), parameter :: steps(3) = [7919, 104729, 1299709]
    integer(c_int64_t) :: i
    integer :: k, status
    logical :: right

    if (command_argument_count() > 0) call get_command_argument(1, spec)
    if (command_argument_count() > 1) call get_command_argument(2, folder)
    if (command_argument_count() > 2) call get_command_argument(3, number)
    read (number, *, iostat=status) n
    if (status /= 0 .or. n < 1) call stop_with('usage: mixed_grad_fortran [DEVICE [FOLDER [N]]]')

    call check(ddisp_context_create(c_null_ptr, context), 'context')
    call check(ddisp_device_open(context, trim(spec)//c_null_char, device), trim(spec))
    call make_kernel(trim(folder), spec(1:6) == 'vulkan')
    call check(ddisp_report_create(context, report), 'report')
    allocate (values(n, 3))
    do k = 1, 3
        do i = 1, n
            values(i, k) = real(mod((i - 1)*steps(k), 10007_c_int64_t), c_float)/10007 - 0.5
        end do
    end do

    print '(a)', 'device    a       b       slot a   slot b   grad a  grad b'
    right = row(trim(spec), [.true., .true.])
    right = row(trim(spec), [.true., .false.]) .and. right
    right = row(trim(spec), [.false., .true.]) .and. right
    right = row(trim(spec), [.false., .false.]) .and. right
    call ddisp_report_release(report)
    call ddisp_kernel_release(kernel)
    call ddisp_device_release(device)
    call ddisp_context_release(context)
    if (.not. right) stop 1, quiet=.true.
end program
