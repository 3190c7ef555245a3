! Regions in Fortran (tests/integration/test_regions.py): regions_fortran FILE
program regions
  use, intrinsic :: iso_fortran_env, only: int64
  use tailrace_regions
  implicit none
  type(tailrace_region) :: outer, inner
  character(len=4096) :: file
  character(len=4) :: text
  integer :: unit
  integer(int64) :: step
  call get_command_argument(1, file)
  call tailrace_begin(outer, "outer", "compute", epoch=1_int64)
  do step = 0, 2
    call tailrace_begin(inner, "inner", step=step, keys="model=unet")
    open (newunit=unit, file=trim(file), status="old", action="read")
    read (unit, "(a)") text
    close (unit)
    if (step == 2) then
      call tailrace_end(inner, keys="model=unet,last=1")
    else
      call tailrace_end(inner)
    end if
  end do
  call tailrace_instant("now")
  call tailrace_counter("number", 0.5d0)
  call tailrace_end(outer)
end program
