# The kernels of backend/cuda for the emulated device, in tests only: a fiber of Boost.Context for
# each CUDA thread. docs/gpu.md says what is there.
file(GLOB_RECURSE sources CONFIGURE_DEPENDS src/backend/cuda/*.cc)
list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
find_path(BOOST_CONTEXT_INCLUDE boost/context/fiber.hpp)
find_library(BOOST_CONTEXT boost_context)
if(BOOST_CONTEXT_INCLUDE AND BOOST_CONTEXT)
  add_library(ng_cuda_emulated STATIC ${sources})
  target_include_directories(ng_cuda_emulated SYSTEM PRIVATE ${BOOST_CONTEXT_INCLUDE})
  target_link_libraries(ng_cuda_emulated PUBLIC ng_flags ng_backend ${BOOST_CONTEXT})
  set_target_properties(ng_cuda_emulated PROPERTIES UNITY_BUILD ${NG_UNITY}
                        UNITY_BUILD_BATCH_SIZE 12)
  # The program with this backend too; it takes the emulated rows in place of those in ng_run.
  if(TARGET narrowgauge)
    add_executable(narrowgauge-emulated tests/cuda/backend_rows.cc $<TARGET_OBJECTS:narrowgauge>)
    target_link_libraries(narrowgauge-emulated PRIVATE ng_cuda_emulated ${NG_LIBRARIES})
  endif()
else()
  message(STATUS "No Boost.Context (libboost-context-dev): tests of CUDA kernels are not built")
endif()

# The same kernels by nvcc, to see that they compile for every card without a warning and without a
# register in memory: one unit, for the headers are what takes time.
set(NG_CUDA AUTO CACHE STRING "kernels compiled by nvcc: AUTO (where there is one), ON or OFF")
set_property(CACHE NG_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NG_CUDA STREQUAL "OFF" OR NG_SANITIZE)
  return()
endif()
find_program(NG_NVCC nvcc PATHS /usr/local/cuda/bin)
set(known "")
if(NG_NVCC)
  execute_process(COMMAND ${NG_NVCC} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
endif()
if(NOT known MATCHES "compute_120")
  if(NG_CUDA STREQUAL "ON")
    message(FATAL_ERROR "NG_CUDA=ON: no nvcc that knows sm_120 (CUDA 13): PATH, or NG_NVCC=FILE")
  endif()
  message(STATUS "No nvcc of CUDA 13: CUDA kernels are compiled for the emulated device only")
  return()
endif()

set(kernels ${sources})
list(FILTER kernels INCLUDE REGEX "/cuda/kernels/")
set(unit "")
foreach(kernel IN LISTS kernels)
  string(APPEND unit "#include \"${kernel}\"\n")
endforeach()
set(NG_CUDA_UNIT ${CMAKE_BINARY_DIR}/cuda_kernels)
file(CONFIGURE OUTPUT ${NG_CUDA_UNIT}.cu CONTENT "${unit}" @ONLY)
set(gencode "")
foreach(card 80 89 90a 100a 120a)
  list(APPEND gencode -gencode=arch=compute_${card},code=sm_${card})
endforeach()
add_custom_command(
  OUTPUT ${NG_CUDA_UNIT}.o
  COMMAND sh -c "\"$@\" 2>${NG_CUDA_UNIT}.log || { cat ${NG_CUDA_UNIT}.log; exit 1; }" sh
          ${NG_NVCC} -std=c++20 --expt-relaxed-constexpr -fmad=false -Werror all-warnings
          ${gencode} -gencode=arch=compute_90,code=compute_90 -Xptxas -v
          -I${CMAKE_SOURCE_DIR}/cmake/nvcc -I${CMAKE_SOURCE_DIR}/src
          -I${CMAKE_SOURCE_DIR}/include -MD -MF ${NG_CUDA_UNIT}.d
          -c ${NG_CUDA_UNIT}.cu -o ${NG_CUDA_UNIT}.o
  DEPENDS ${NG_CUDA_UNIT}.cu DEPFILE ${NG_CUDA_UNIT}.d VERBATIM
  COMMENT "Compiling CUDA kernels for all cards")
add_custom_target(cuda_kernels ALL DEPENDS ${NG_CUDA_UNIT}.o)
ng_add_test(cuda_kernels cuda ${CMAKE_SOURCE_DIR}/tests/cuda/spills ${NG_CUDA_UNIT}.log)
