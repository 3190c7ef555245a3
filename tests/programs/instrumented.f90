! Procedures of Fortran, compiled with -finstrument-functions: instrumented FILE.
module solver
  implicit none
contains
  subroutine reads(path)
    character(*), intent(in) :: path
    integer :: unit
    open(newunit=unit, file=path, action='read')
    close(unit)
  end subroutine
  subroutine step(path)
    character(*), intent(in) :: path
    call reads(path)
  end subroutine
end module

program main
  use solver
  implicit none
  character(4096) :: path
  integer :: i
  call get_command_argument(1, path)
  do i = 1, 3
    call step(trim(path))
  end do
  call reads(trim(path))
end program
