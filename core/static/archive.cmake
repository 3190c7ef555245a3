# Makes libtailrace.a of the library's objects:  cmake -DOUTPUT=... -DOBJECTS=... -DCORE=libtailrace_core.a -DCC=... -P archive.cmake
#
# All of the core is one object, in which the hooks have names of their own and only they and the C API are visible.
function(run)
  execute_process(COMMAND ${ARGV} WORKING_DIRECTORY ${OUTPUT} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(STRINGS ${OBJECTS} objects)
run(${CC} -nostdlib -no-pie -Wl,-r -o whole.o ${objects} -Wl,--whole-archive ${CORE} -Wl,--no-whole-archive)
run(${OBJCOPY} --redefine-syms=symbols.txt --wildcard --keep-global-symbol=tailrace_* --keep-global-symbol=__cyg_profile_func_* --strip-debug whole.o core.o)
file(GLOB sources ${OUTPUT}/stubs/*.s)
file(REMOVE_RECURSE ${OUTPUT}/objects)
file(MAKE_DIRECTORY ${OUTPUT}/objects)
execute_process(COMMAND ${CC} -c ${sources} WORKING_DIRECTORY ${OUTPUT}/objects COMMAND_ERROR_IS_FATAL ANY)
file(GLOB stubs ${OUTPUT}/objects/*.o)
file(REMOVE ${OUTPUT}/libtailrace.a ${OUTPUT}/whole.o)
run(${AR} qcs libtailrace.a core.o ${stubs})
