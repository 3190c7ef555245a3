# Finds the headers of CUDA's profiling interface, CUPTI, for TAILRACE_CUPTI: of an installed CUDA, or of NVIDIA's Python wheels
# (nvidia-cuda-cupti-cu12, nvidia-cuda-runtime-cu12, nvidia-cuda-nvcc-cu12). No library: the core opens libcupti at run time.
# Sets TAILRACE_CUPTI_INCLUDES.
set(TAILRACE_CUDA_DIR "" CACHE PATH "CUDA's directory, or the directory nvidia of a site-packages with NVIDIA's wheels")
set(TAILRACE_CUPTI_INCLUDES "")
foreach(header cupti.h cuda.h crt/host_defines.h)
  string(MAKE_C_IDENTIFIER TAILRACE_HAS_${header} variable)
  find_path(${variable} ${header}
    HINTS ${TAILRACE_CUDA_DIR} ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda
    PATH_SUFFIXES include extras/CUPTI/include cuda_cupti/include cuda_runtime/include cuda_nvcc/include cu13/include)
  if(NOT ${variable})
    message(FATAL_ERROR "tailrace: TAILRACE_CUPTI needs CUDA's headers, and ${header} is not found: set TAILRACE_CUDA_DIR to "
      "CUDA's directory, or to .../site-packages/nvidia, where NVIDIA's wheels for CUPTI, the runtime and nvcc are installed")
  endif()
  list(APPEND TAILRACE_CUPTI_INCLUDES ${${variable}})
endforeach()
list(REMOVE_DUPLICATES TAILRACE_CUPTI_INCLUDES)
