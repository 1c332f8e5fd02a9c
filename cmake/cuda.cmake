# Kernels of backend/cuda and the backend of a card, by nvcc, for every card without a warning and
# without a register in memory: one unit, for the headers are what takes time. docs/gpu.md says what
# is there. Sets NG_CUDA_OBJECT and, where a program can have cards, makes ng_cards.
set(NG_CUDA AUTO CACHE STRING "kernels compiled by nvcc: AUTO (where there is one), ON or OFF")
set_property(CACHE NG_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT NG_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "NG_CUDA=${NG_CUDA}: AUTO, ON or OFF")
endif()
if(NG_CUDA STREQUAL "OFF" OR NG_SANITIZE OR (NG_PYTHON AND NOT NG_CUDA STREQUAL "ON"))
  return()
endif()
# What is missing: an error where CUDA was insisted on, else said.
function(ng_cuda_lacks what remedy)
  if(NG_CUDA STREQUAL "ON")
    message(FATAL_ERROR "NG_CUDA=ON: ${what}: ${remedy}")
  endif()
  message(STATUS "${what}: no CUDA backend")
endfunction()
find_program(NG_NVCC nvcc PATHS /usr/local/cuda/bin)
set(known "")
if(NG_NVCC)
  execute_process(COMMAND ${NG_NVCC} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
endif()
if(NOT known MATCHES "compute_120")
  ng_cuda_lacks("no nvcc that knows sm_120 (CUDA 13)" "PATH, or NG_NVCC=FILE")
  return()
endif()
# Some nvcc refuse the compiler that is here.
if(NOT NG_NVCC_WORKS STREQUAL NG_NVCC)
  file(WRITE ${CMAKE_BINARY_DIR}/cuda_probe.cu "#include <string>\n__global__ void kernel() {}\n")
  execute_process(
    COMMAND ${NG_NVCC} -std=c++20 -c cuda_probe.cu -o cuda_probe.o
    WORKING_DIRECTORY ${CMAKE_BINARY_DIR} RESULT_VARIABLE failed ERROR_VARIABLE said OUTPUT_QUIET)
  if(failed)
    ng_cuda_lacks("${NG_NVCC} compiles nothing here" "${said}")
    return()
  endif()
  set(NG_NVCC_WORKS ${NG_NVCC} CACHE INTERNAL "the nvcc that compiled a kernel here")
endif()
# Linked in, and nvcc's own: a program with it starts where there is no driver.
file(REAL_PATH ${NG_NVCC} toolkit)
cmake_path(GET toolkit PARENT_PATH toolkit)
cmake_path(GET toolkit PARENT_PATH toolkit)
find_library(NG_CUDART cudart_static PATHS ${toolkit}
             PATH_SUFFIXES lib64 lib targets/x86_64-linux/lib NO_DEFAULT_PATH)
if(NOT NG_CUDART)
  ng_cuda_lacks("no libcudart_static.a beside ${NG_NVCC}" "NG_CUDART=FILE")
endif()

file(GLOB kernels CONFIGURE_DEPENDS src/backend/cuda/kernels/*.cc src/backend/cuda/card/*.cc)
set(unit "")
foreach(kernel IN LISTS kernels)
  string(APPEND unit "#include \"${kernel}\"\n")
endforeach()
set(NG_CUDA_UNIT ${CMAKE_BINARY_DIR}/cuda_kernels)
file(CONFIGURE OUTPUT ${NG_CUDA_UNIT}.cu CONTENT "${unit}" @ONLY)
set(cards 80 89 90a 100a 120a)
list(JOIN cards "," NG_CUDA_CARDS)
# Nothing here asks which card it is for: one PTX, of the oldest, from which all are made. Without
# that each card takes as long again as its share of ptxas.
list(TRANSFORM cards PREPEND sm_ OUTPUT_VARIABLE codes)
list(JOIN codes "," codes)
set(gencode "-gencode=arch=compute_80,code=[${codes},compute_80]")
set(NG_CUDA_OBJECT ${NG_CUDA_UNIT}.o)
add_custom_command(
  OUTPUT ${NG_CUDA_OBJECT}
  COMMAND sh -c "\"$@\" 2>${NG_CUDA_UNIT}.log || { cat ${NG_CUDA_UNIT}.log; exit 1; }" sh
          ${NG_NVCC} -std=c++20 --expt-relaxed-constexpr -fmad=false -Werror all-warnings
          -O3 -Xcompiler -fPIC,-ffp-contract=off,-fno-math-errno,-fvisibility=hidden
          -Ddescribe_values=describe_without_fmt  # another function than that of the libraries
          --threads 2 ${gencode} -Xptxas -v
          --compress-mode=size  # a quarter
          -I${CMAKE_SOURCE_DIR}/cmake/nvcc -I${CMAKE_SOURCE_DIR}/src
          -I${CMAKE_SOURCE_DIR}/include -MD -MF ${NG_CUDA_UNIT}.d
          -c ${NG_CUDA_UNIT}.cu -o ${NG_CUDA_OBJECT}
  DEPENDS ${NG_CUDA_UNIT}.cu DEPFILE ${NG_CUDA_UNIT}.d VERBATIM
  COMMENT "Compiling CUDA kernels for all cards")
add_custom_target(cuda_kernels ALL DEPENDS ${NG_CUDA_OBJECT})

# A program that links this has a card among its backends, if src/run/backend_rows.cc is its own.
if(NG_CUDART)
  add_library(ng_cards INTERFACE)
  add_dependencies(ng_cards cuda_kernels)
  target_link_libraries(ng_cards INTERFACE ${NG_CUDA_OBJECT} ${NG_CUDART} ${CMAKE_DL_LIBS} rt)
  target_compile_definitions(ng_cards INTERFACE NG_CUDA_CARDS="${NG_CUDA_CARDS}")
  set_property(TARGET ng_cards PROPERTY INTERFACE_LINK_DEPENDS ${NG_CUDA_OBJECT})
endif()
