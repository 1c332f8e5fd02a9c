# The kernels of backend/cuda for the emulated device, in tests only: a fiber of Boost.Context for
# each CUDA thread. docs/gpu.md says what is there.
find_path(BOOST_CONTEXT_INCLUDE boost/context/fiber.hpp)
find_library(BOOST_CONTEXT boost_context)
if(NOT BOOST_CONTEXT_INCLUDE OR NOT BOOST_CONTEXT)
  message(STATUS "No Boost.Context (libboost-context-dev): tests of CUDA kernels are not built")
  return()
endif()

file(GLOB_RECURSE sources CONFIGURE_DEPENDS src/backend/cuda/*.cc)
list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
add_library(ng_cuda_emulated STATIC ${sources})
target_include_directories(ng_cuda_emulated SYSTEM PRIVATE ${BOOST_CONTEXT_INCLUDE})
target_link_libraries(ng_cuda_emulated PUBLIC ng_flags ng_backend ${BOOST_CONTEXT})
