# The kernels of backend/cuda for the emulated device, in tests only: a fiber of Boost.Context for
# each CUDA thread. docs/gpu.md says what is there.
file(GLOB sources CONFIGURE_DEPENDS src/backend/cuda/kernels/*.cc src/backend/cuda/emulated/*.cc)
find_path(BOOST_CONTEXT_INCLUDE boost/context/fiber.hpp)
find_library(BOOST_CONTEXT boost_context)
if(BOOST_CONTEXT_INCLUDE AND BOOST_CONTEXT)
  add_library(ng_cuda_emulated STATIC ${sources})
  target_include_directories(ng_cuda_emulated SYSTEM PRIVATE ${BOOST_CONTEXT_INCLUDE})
  target_link_libraries(ng_cuda_emulated PUBLIC ng_flags ng_backend_cuda ${BOOST_CONTEXT})
  set_target_properties(ng_cuda_emulated PROPERTIES POSITION_INDEPENDENT_CODE ON
                        UNITY_BUILD ${NG_UNITY} UNITY_BUILD_BATCH_SIZE 12)
  add_dependencies(libraries ng_cuda_emulated)
  # The program with this backend too; it takes the emulated rows in place of those in ng_run.
  if(TARGET ng_cli)
    add_executable(narrowgauge-emulated tests/cuda/backend_rows.cc)
    target_link_libraries(narrowgauge-emulated PRIVATE ng_cuda_emulated ng_cli)
  endif()
else()
  message(STATUS "No Boost.Context (libboost-context-dev): tests of CUDA kernels are not built")
endif()
