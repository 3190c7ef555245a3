# Writes what libtailrace.a is made with, from the tables of hooks:  cmake -DSOURCE=core -DOUTPUT=... -DMACHINE=... -DCC=... -DNM=... -P stubs.cmake
#
#   stubs/NAME.s      __wrap_NAME, which jumps to the hook, and the row of the original in tailrace_originals
#   symbols.txt       the hooks' names in the library: NAME tailrace_hook_NAME
#   tailrace.wrap     the linker's options, for a program: cc -static main.o -L... @tailrace.wrap
#
# A stub is an object of its own: only that of a function that the program calls is linked, so nothing else of libc is.
# (Strong references to all originals would take most of libc into each program; weak ones take nothing, and are null.)
#
# The linker rewrites libc's own calls, too, which no hook must see: they would be recorded as the program's, twice. libc
# calls itself by names with underscores. Of those, some are the compiler's for a call of the program (PROGRAMS); the
# stubs of the others look where the call returns to. The linker places libc behind the core, and the program before it.
# Not for every name: where a function of the program that libc called (main, a thread's) ends in a call, it may return
# right into libc.
cmake_policy(VERSION 3.22)
set(PROGRAMS "^_.*(_chk|_2)$|^__isoc(99|23)_|^__(x|fx|lx)stat|^__xmknod|^__posix_getopt$|^__register_atfork$")
# A static program loads no libraries; libc makes the others of calls that are wrapped, and recorded by themselves.
set(LEFT_OUT dlopen dlmopen dlsym addmntent ctime getusershell malloc_info malloc_stats psiginfo putgrent putpwent putsgent
  putspent sem_open __getlogin_r_chk __readlinkat_chk)

file(STRINGS ${SOURCE}/src/format/hooks.def rows REGEX "^HOOK\\(")
file(STRINGS ${SOURCE}/src/format/hooks_libc.def libc_rows REGEX "^HOOK\\(")
list(TRANSFORM rows REPLACE "^HOOK\\(([A-Za-z0-9_]+),.*" "\\1")
list(TRANSFORM libc_rows REPLACE "^HOOK\\(([A-Za-z0-9_]+),.*" "\\1")
set(hooks ${rows} ${libc_rows})

file(STRINGS ${SOURCE}/static/needs.txt needs REGEX "^[a-z_]")
foreach(row ${needs})
  string(REPLACE " " ";" row "${row}")
  list(POP_FRONT row name)
  set(needs_of_${name} ${row})
endforeach()

if(MACHINE MATCHES "^(aarch64|arm64)$")
  set(JUMP "b")
  set(RETURNS_TO_PROGRAM "adrp x16, tailrace_hook_read\n\tadd x16, x16, :lo12:tailrace_hook_read\n\tcmp x30, x16\n\tb.lo 1f")
else()
  set(JUMP "jmp")
  set(RETURNS_TO_PROGRAM "leaq tailrace_hook_read(%rip), %r11\n\tcmpq %r11, (%rsp)\n\tjb 1f")
endif()

file(REMOVE_RECURSE ${OUTPUT}/stubs)
set(symbols "")
set(options "")
foreach(name ${hooks})
  string(APPEND symbols "${name} tailrace_hook_${name}\n")
  if(name IN_LIST LEFT_OUT)
    continue()
  endif()
  string(APPEND options "-Wl,--wrap=${name}\n")
  set(text "\t.text\n\t.globl __wrap_${name}\n\t.type __wrap_${name}, %function\n__wrap_${name}:\n")
  if(name MATCHES "^_" AND NOT name MATCHES "${PROGRAMS}")
    string(APPEND text "\t${RETURNS_TO_PROGRAM}\n\t${JUMP} __real_${name}\n")
  endif()
  string(APPEND text "1:\t${JUMP} tailrace_hook_${name}\n\t.size __wrap_${name}, .-__wrap_${name}\n")
  foreach(original ${name} ${needs_of_${name}})
    string(APPEND text "\t.section .rodata.tailrace, \"aMS\", %progbits, 1\n1:\t.asciz \"${original}\"\n")
    string(APPEND text "\t.section tailrace_originals, \"aw\", %progbits\n\t.balign 8\n\t.quad 1b, __real_${original}\n")
  endforeach()
  string(APPEND text "\t.section .note.GNU-stack, \"\", %progbits\n")
  file(WRITE ${OUTPUT}/stubs/${name}.s "${text}")
endforeach()
# libc's own members call what is wrapped, so it is searched together with the stubs. Compilers add libraries behind all, by
# which further members are needed: those find the stubs that any member of this libc may call.
execute_process(COMMAND ${CC} -print-file-name=libc.a OUTPUT_VARIABLE libc OUTPUT_STRIP_TRAILING_WHITESPACE)
if(EXISTS "${libc}")
  execute_process(COMMAND ${NM} --undefined-only --format=posix ${libc} OUTPUT_VARIABLE called ERROR_QUIET)
  foreach(name ${hooks})
    if(name MATCHES "^_" AND NOT name IN_LIST LEFT_OUT AND called MATCHES "\n${name} U")
      string(APPEND options "-Wl,--undefined=__wrap_${name}\n")
    endif()
  endforeach()
endif()
# libgcc, libstdc++ and libgfortran take threads for present where pthread_key_create is, which the core brings in, and then call
# all of these by weak references, which take no member out of libc (gthr-posix.h of GCC).
foreach(name once create join detach cancel equal self getspecific setspecific key_delete mutex_init mutex_lock mutex_trylock
    mutex_timedlock mutex_unlock mutex_destroy mutexattr_init mutexattr_settype mutexattr_destroy cond_init cond_broadcast
    cond_signal cond_wait cond_timedwait cond_destroy rwlock_rdlock rwlock_tryrdlock rwlock_wrlock rwlock_trywrlock
    rwlock_unlock)
  string(APPEND options "-Wl,--undefined=pthread_${name}\n")
endforeach()
string(APPEND options "-Wl,--start-group\n-ltailrace\n-lgcc\n-lgcc_eh\n-lc\n-Wl,--end-group\n")
file(WRITE ${OUTPUT}/symbols.txt "${symbols}")
file(WRITE ${OUTPUT}/tailrace.wrap "${options}")
