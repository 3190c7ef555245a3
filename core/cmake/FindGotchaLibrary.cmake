# Finds libgotcha.so.2: an installed package (find_package, a module's library path), else the copy inside the
# `dftracer` wheel, which is downloaded from the package index unless TAILRACE_GOTCHA_DOWNLOAD is off: one version, each
# file by its hash, since it runs in every process that attaches. Without it everything works but attaching and
# RTLD_DEEPBIND.
# Sets TAILRACE_GOTCHA_LIBRARY (path, or empty) and TAILRACE_GOTCHA_ORIGIN (for people).
set(TAILRACE_GOTCHA_LIBRARY "")
set(TAILRACE_GOTCHA_ORIGIN "")

find_package(gotcha CONFIG QUIET)
if(TARGET gotcha)
  get_target_property(gotcha_found gotcha LOCATION)
  # A link would be installed as one, to a file that isn't there.
  get_filename_component(TAILRACE_GOTCHA_LIBRARY ${gotcha_found} REALPATH)
  set(TAILRACE_GOTCHA_ORIGIN "package gotcha ${gotcha_VERSION}")
  return()
endif()
find_library(TAILRACE_GOTCHA_INSTALLED gotcha)
if(TAILRACE_GOTCHA_INSTALLED)
  get_filename_component(TAILRACE_GOTCHA_LIBRARY ${TAILRACE_GOTCHA_INSTALLED} REALPATH)
  set(TAILRACE_GOTCHA_ORIGIN "installed library")
  return()
endif()

if(DEFINED TAILRACE_GOTCHA_DOWNLOAD AND NOT TAILRACE_GOTCHA_DOWNLOAD)
  message(STATUS "tailrace: no GOTCHA: none is installed, and TAILRACE_GOTCHA_DOWNLOAD is off")
  return()
endif()
find_package(Python 3.10 COMPONENTS Interpreter QUIET)
if(NOT Python_FOUND)
  message(STATUS "tailrace: no GOTCHA (neither the package nor a Python to get it with)")
  return()
endif()

set(wheel_list ${CMAKE_CURRENT_LIST_DIR}/gotcha-wheel.txt)
file(SHA256 ${wheel_list} wheel_key)
set(wheel_dir ${CMAKE_CURRENT_BINARY_DIR}/gotcha-wheel/${wheel_key})
file(GLOB_RECURSE found ${wheel_dir}/dftracer/lib*/libgotcha.so.2)
if(NOT found)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -m pip download --quiet --no-deps --only-binary :all: --dest ${wheel_dir} --require-hashes
            --requirement ${wheel_list}
    RESULT_VARIABLE status ERROR_VARIABLE why OUTPUT_QUIET)
  if(status EQUAL 0)
    file(GLOB wheel ${wheel_dir}/dftracer-*.whl)
    file(ARCHIVE_EXTRACT INPUT ${wheel} DESTINATION ${wheel_dir} PATTERNS "*libgotcha.so*")
    file(GLOB_RECURSE found ${wheel_dir}/dftracer/lib*/libgotcha.so.2)
  endif()
endif()
if(found)
  list(GET found 0 first)
  get_filename_component(TAILRACE_GOTCHA_LIBRARY ${first} REALPATH)
  set(TAILRACE_GOTCHA_ORIGIN "dftracer wheel")
  message(STATUS "tailrace: GOTCHA from the dftracer wheel")
else()
  message(STATUS "tailrace: no GOTCHA: the dftracer wheel could not be had: ${why}")
endif()
