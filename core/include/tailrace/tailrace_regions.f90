! Regions of a Fortran program (docs/regions.md): compile this file with the program; no library is linked. In a program
! that is not traced a region costs a load and a branch.
!
!     use tailrace_regions
!     type(tailrace_region) :: region
!     call tailrace_begin(region, "solve", "compute", step=3_int64)
!     ...
!     call tailrace_end(region)
!
! A region belongs to the thread that began it. Its name is looked up at each begin.
module tailrace_regions
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64, real64
  implicit none
  private
  public :: tailrace_region, tailrace_begin, tailrace_end, tailrace_instant, tailrace_counter

  integer(int64), parameter :: no_key = -huge(0_int64) - 1_int64

  ! As in region.h.
  type, bind(c) :: tailrace_region
    integer(c_int64_t) :: id = 0
    integer(c_int64_t) :: state(11) = 0
  end type

  type, bind(c) :: functions
    integer(c_size_t) :: bytes
    type(c_funptr) :: define, begin, end, instant, counter, switch_to, hold, current
  end type

  abstract interface
    function find_table() bind(c)
      import :: c_ptr
      type(c_ptr) :: find_table
    end function
    function define_region(name, category) bind(c)
      import :: c_ptr, c_char
      character(kind=c_char), intent(in) :: name(*), category(*)
      type(c_ptr) :: define_region
    end function
    subroutine begin_region(region, definition, epoch, step, keys) bind(c)
      import :: tailrace_region, c_ptr, c_int64_t
      type(tailrace_region), intent(inout) :: region
      type(c_ptr), value :: definition, keys
      integer(c_int64_t), value :: epoch, step
    end subroutine
    subroutine end_region(region, epoch, step, keys, changed) bind(c)
      import :: tailrace_region, c_ptr, c_int64_t, c_int
      type(tailrace_region), intent(inout) :: region
      type(c_ptr), value :: keys
      integer(c_int64_t), value :: epoch, step
      integer(c_int), value :: changed
    end subroutine
    subroutine record_instant(definition, epoch, step, keys) bind(c)
      import :: c_ptr, c_int64_t
      type(c_ptr), value :: definition, keys
      integer(c_int64_t), value :: epoch, step
    end subroutine
    subroutine record_counter(definition, value) bind(c)
      import :: c_ptr, c_double
      type(c_ptr), value :: definition
      real(c_double), value :: value
    end subroutine
  end interface

  interface
    function dlsym(handle, name) bind(c)
      import :: c_ptr, c_funptr, c_char
      type(c_ptr), value :: handle
      character(kind=c_char), intent(in) :: name(*)
      type(c_funptr) :: dlsym
    end function
  end interface

  ! Set once; two threads that look at the same time find the same.
  logical, save :: looked = .false., traced = .false.
  procedure(define_region), pointer, save :: define => null()
  procedure(begin_region), pointer, save :: begin => null()
  procedure(end_region), pointer, save :: finish => null()
  procedure(record_instant), pointer, save :: instant => null()
  procedure(record_counter), pointer, save :: counter => null()

contains

  ! Begins a region. keys: further ones as tags, "model=unet,batch=32".
  subroutine tailrace_begin(region, name, category, epoch, step, keys)
    type(tailrace_region), intent(inout) :: region
    character(len=*), intent(in) :: name
    character(len=*), intent(in), optional :: category, keys
    integer(int64), intent(in), optional :: epoch, step
    character(kind=c_char, len=:), allocatable, target :: text
    type(c_ptr) :: given
    region%id = 0
    if (.not. looked) call look
    if (.not. traced) return
    given = c_null_ptr
    if (present(keys)) then
      text = trim(keys)//c_null_char
      given = c_loc(text)
    end if
    call begin(region, definition_of(name, category), number(epoch), number(step), given)
  end subroutine

  ! Ends it. With epoch, step or keys: what became known in it; keys has those of the begin, too.
  subroutine tailrace_end(region, epoch, step, keys)
    type(tailrace_region), intent(inout) :: region
    integer(int64), intent(in), optional :: epoch, step
    character(len=*), intent(in), optional :: keys
    character(kind=c_char, len=:), allocatable, target :: text
    type(c_ptr) :: given
    if (.not. traced) return
    given = c_null_ptr
    if (present(keys)) then
      text = trim(keys)//c_null_char
      given = c_loc(text)
    end if
    call finish(region, number(epoch), number(step), given, &
                merge(1_c_int, 0_c_int, present(epoch) .or. present(step) .or. present(keys)))
  end subroutine

  ! Something that happens now.
  subroutine tailrace_instant(name, category)
    character(len=*), intent(in) :: name
    character(len=*), intent(in), optional :: category
    if (.not. looked) call look
    if (traced) call instant(definition_of(name, category), no_key, no_key, c_null_ptr)
  end subroutine

  ! The number is `value` from now on.
  subroutine tailrace_counter(name, value, category)
    character(len=*), intent(in) :: name
    real(real64), intent(in) :: value
    character(len=*), intent(in), optional :: category
    if (.not. looked) call look
    if (traced) call counter(definition_of(name, category), real(value, c_double))
  end subroutine

  subroutine look
    type(c_funptr) :: found
    procedure(find_table), pointer :: find
    type(functions), pointer :: table
    ! RTLD_DEFAULT is null.
    found = dlsym(c_null_ptr, "tailrace_region_functions_v1"//c_null_char)
    if (c_associated(found)) then
      call c_f_procpointer(found, find)
      call c_f_pointer(find(), table)
      call c_f_procpointer(table%define, define)
      call c_f_procpointer(table%begin, begin)
      call c_f_procpointer(table%end, finish)
      call c_f_procpointer(table%instant, instant)
      call c_f_procpointer(table%counter, counter)
      traced = .true.
    end if
    looked = .true.
  end subroutine

  function definition_of(name, category) result(definition)
    character(len=*), intent(in) :: name
    character(len=*), intent(in), optional :: category
    type(c_ptr) :: definition
    if (present(category)) then
      definition = define(trim(name)//c_null_char, trim(category)//c_null_char)
    else
      definition = define(trim(name)//c_null_char, c_null_char)
    end if
  end function

  pure function number(given)
    integer(int64), intent(in), optional :: given
    integer(c_int64_t) :: number
    number = no_key
    if (present(given)) number = given
  end function

end module
