# A test program per room, one benchmark per x_bench.cc, one fuzz target per x_fuzz.cc.
# Labels: the folder (format, backend, e2e, ...); "fast" on those that also run under sanitizers;
# "once" on those of them that a whole ./test builds and runs there alone.
enable_testing()
find_package(GTest QUIET)
if(NOT GTest_FOUND)
  message(STATUS "GoogleTest is missing: only the program can be built")
  return()
endif()

# They would more than double the time of the sanitizer run, and run little that others do not.
set(NG_NOT_FAST "^study_|^train_(curve|memory|session_faults)_|^e2e_(bits|crash|resume)_")
string(APPEND NG_NOT_FAST "|^(browser|tensorboard)_|^mpi_")
string(APPEND NG_NOT_FAST "|^base_isa_")  # of instruction sets that are not built there
# Of rooms that work on text, tables and files: no instruction set, optimisation or number of
# threads makes them answer otherwise. fast_tests builds them.
set(NG_ONCE "^(base|tokenizer|recipe|data|io|hf|tools|infer|learned)_test$")
string(APPEND NG_ONCE "|^(report|chart|compare|search)_test$")
set(NG_TEST_SECONDS 600 CACHE STRING "time limit of one test program")
# They take longest, and start first: no core waits for the other's last test.
set(NG_LONG "^(study|conformance|cuda|tools|tokenizer)_test$|^train_(session_faults|memory)_test$")
string(APPEND NG_LONG "|^backend_cpu_(quantize|gemm|ops|attention)_test$")
string(APPEND NG_LONG "|^e2e_(bits|resume)_test$|_part[0-9]$")
add_custom_target(fast_tests COMMENT "builds the tests labelled fast")

# Registers test `name` that runs the command in ARGN; `folder` is the one below src/ or tests/.
function(ng_add_test name folder)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
  set(labels ${folder})
  if(NOT name MATCHES "${NG_NOT_FAST}")
    list(APPEND labels fast)
    string(REGEX REPLACE "_part[0-9]$" "" program ${name})
    add_dependencies(fast_tests ${program})
    if(program MATCHES "${NG_ONCE}")
      list(APPEND labels once)
      set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${NG_TEST_SECONDS})
  if(name MATCHES "${NG_LONG}")
    set_tests_properties(${name} PROPERTIES COST 100)
  endif()
endfunction()

# A test of a folder up to io, whose reader of golden files all may use, links what is up to there:
# it builds while higher ones are in pieces, and is not linked anew when they change. Others link
# all.
function(ng_link_test name source)
  target_link_libraries(${name} PRIVATE ng_test_support)
  cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR}/src OUTPUT_VARIABLE folder)
  set(first -1)
  while(first EQUAL -1 AND folder MATCHES "/")  # also from folders inside that of a library
    cmake_path(GET folder PARENT_PATH folder)
    string(REPLACE "/" "_" library ng_${folder})
    list(FIND NG_LIBRARIES "${library}" first)
  endwhile()
  list(FIND NG_LIBRARIES ng_io io)
  if(first GREATER_EQUAL io)
    set(first ${io})
  else()
    set(first 0)
  endif()
  list(SUBLIST NG_LIBRARIES ${first} -1 libraries)
  target_link_libraries(${name} PRIVATE ${libraries})
endfunction()

# Optimising is a third of what compilers take for tests: only where those compute much themselves.
set(NG_TEST_OPTIONS -O0 $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds>)
set(NG_COMPUTING "^(backend|conformance|cuda|format|math|numbers)$")
# Headers that take up to half of the time to compile a test, compiled once. Where GCC 12 reads them
# so, it sees overflows in std::string that are not there.
add_library(ng_test_headers OBJECT src/base/version.cc)
target_link_libraries(ng_test_headers PRIVATE ng_flags GTest::gtest)
target_compile_options(ng_test_headers PRIVATE ${NG_TEST_OPTIONS})
target_precompile_headers(ng_test_headers PRIVATE <gtest/gtest.h> src/base/json.h)
set_target_properties(ng_test_headers PROPERTIES EXPORT_COMPILE_COMMANDS OFF  # not for clang-tidy
                                                 NG_OF_TESTS ON)

# Compiles the test program `name` as those of a folder below src/ or tests/.
function(ng_compile_test name folder)
  target_compile_options(${name} PRIVATE ${NG_TEST_OPTIONS})
  if(folder MATCHES "${NG_COMPUTING}")
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  if(NG_SANITIZE OR NOT folder MATCHES "${NG_COMPUTING}")  # of the same options
    target_precompile_headers(${name} REUSE_FROM ng_test_headers)
  endif()
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${NG_UNITY} UNITY_BUILD_BATCH_SIZE 8)
endfunction()

# What tests of several folders share. It names no library: each test has those that its part needs.
file(GLOB support CONFIGURE_DEPENDS tests/support/*.cc)
list(FILTER support EXCLUDE REGEX "_test\\.cc$")
add_library(ng_test_support STATIC ${support})
target_link_libraries(ng_test_support PRIVATE ng_flags)
target_compile_options(ng_test_support PRIVATE ${NG_TEST_OPTIONS})
target_include_directories(ng_test_support PUBLIC ${CMAKE_SOURCE_DIR}/tests)
set_target_properties(ng_test_support PROPERTIES NG_OF_TESTS ON)

# The fast tests of a room are one program, compiled as a few units, for parsing headers is what
# tests take; slow ones, tests of Highway's code and of ranks have a program per x_test.cc.
function(ng_add_test_program name folder sources)
  list(GET sources 0 first)
  add_executable(${name} ${sources})
  ng_link_test(${name} ${first})
  target_link_libraries(${name} PRIVATE GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE NG_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  ng_compile_test(${name} ${folder})
  set_target_properties(${name} PROPERTIES NG_OF_TESTS ON)
  set(tests ${name})
  if(name MATCHES "^(e2e|train)_test$")  # long: in parts beside each other
    set(tests ${name}_part0 ${name}_part1 ${name}_part2 ${name}_part3)
  endif()
  foreach(test IN LISTS tests)
    ng_add_test(${test} ${folder} ${name})
    if(NOT test STREQUAL name)
      string(REGEX REPLACE ".*_part" "" part ${test})
      set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT
                   "GTEST_TOTAL_SHARDS=4;GTEST_SHARD_INDEX=${part}")
    endif()
    if(TARGET narrowgauge AND first MATCHES "/tests/")
      set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT NG_PROGRAM=$<TARGET_FILE:narrowgauge>)
    endif()
  endforeach()
  if(TARGET narrowgauge AND first MATCHES "/tests/")  # linked after it: `quick` sees it
    set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS $<TARGET_FILE:narrowgauge>)
  endif()
endfunction()

# Those of the backends by their folders, which have names of their own.
file(GLOB_RECURSE tests CONFIGURE_DEPENDS src/*_test.cc tests/*_test.cc)
include(cmake/emulated.cmake)
if(NG_CUDA_OBJECT)
  ng_add_test(cuda_kernels cuda ${CMAKE_SOURCE_DIR}/tests/cuda/spills ${NG_CUDA_UNIT}.log)
  # What says values of broken contracts is libfmt's in the whole program.
  add_test(NAME cuda_symbols COMMAND sh -c "! nm -C \"$1\" | grep describe_values" sh
                                     ${NG_CUDA_OBJECT})
  set_tests_properties(cuda_symbols PROPERTIES LABELS cuda TIMEOUT 60)
endif()
if(NOT TARGET ng_cuda_emulated)
  list(FILTER tests EXCLUDE REGEX "/cuda/")
endif()
set(NG_ROOMS "")
foreach(source IN LISTS tests)
  cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE name)
  string(REGEX REPLACE "^(src|tests)/|\\.cc$" "" name ${name})
  string(REGEX MATCH "^backend/.*/|^[^/]+" room ${name})
  string(REPLACE "/" "_" name ${name})
  string(REGEX REPLACE "/$" "" room ${room})
  string(REPLACE "/" "_" room ${room})
  file(STRINGS ${source} kernel REGEX "foreach_target" LIMIT_COUNT 1)
  if(kernel OR room STREQUAL "mpi" OR (name MATCHES "${NG_NOT_FAST}" AND NOT room STREQUAL "study"))
    string(REGEX MATCH "^[^_]+" folder ${room})
    ng_add_test_program(${name} ${folder} ${source})
  else()
    list(APPEND NG_ROOMS ${room})
    list(APPEND tests_of_${room} ${source})
  endif()
endforeach()
list(REMOVE_DUPLICATES NG_ROOMS)
foreach(room IN LISTS NG_ROOMS)
  string(REGEX MATCH "^[^_]+" folder ${room})
  ng_add_test_program(${room}_test ${folder} "${tests_of_${room}}")
endforeach()
if(TARGET narrowgauge-emulated)
  add_dependencies(e2e_test narrowgauge-emulated)
  foreach(part RANGE 3)
    set_property(TEST e2e_test_part${part} APPEND PROPERTY ENVIRONMENT
                 NG_EMULATED=$<TARGET_FILE:narrowgauge-emulated>)
  endforeach()
endif()
if(TARGET ng_cuda_emulated)
  target_link_libraries(backend_cuda_test PRIVATE ng_cuda_emulated)
  foreach(test conformance cuda train)  # with the emulated card among the backends
    target_sources(${test}_test PRIVATE tests/cuda/backend_rows.cc)
    target_link_libraries(${test}_test PRIVATE ng_cuda_emulated)
  endforeach()
endif()
# What scripts/gpu-bundle takes to a card: conformance and the golden models, with the card among
# the backends. Golden files are looked for below the folder in which it is started.
if(TARGET ng_cards)
  file(GLOB sources CONFIGURE_DEPENDS tests/conformance/*_test.cc)
  add_executable(card_test EXCLUDE_FROM_ALL ${sources} src/train/golden_test.cc
                                            src/run/backend_rows.cc)
  target_link_libraries(card_test PRIVATE ng_test_support ${NG_LIBRARIES} GTest::gtest_main
                                          ng_cards)
  target_compile_definitions(card_test PRIVATE NG_SOURCE_DIR=".")
  ng_compile_test(card_test conformance)
  set_target_properties(card_test PROPERTIES EXPORT_COMPILE_COMMANDS OFF)  # others' sources
endif()
list(JOIN NG_FOLDERS "," folders)
target_compile_definitions(layout_test PRIVATE NG_FOLDERS="${folders},cli")

set(waiting "")
# Ranks that are processes, more than there are cores: all on this machine, each yields its core.
# Without its component gl, hwloc asks DNS for "localhost" ten times where /etc/hosts lacks it.
set(NG_MPIRUN ${MPIEXEC_EXECUTABLE} --oversubscribe --mca mpi_yield_when_idle 1)
set(NG_MPI_SETTINGS OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HWLOC_COMPONENTS=-gl)
if(MPI_FOUND)
  foreach(ranks 2 3 4)
    set(name mpi_${ranks}_ranks)
    ng_add_test(${name} mpi ${NG_MPIRUN} -n ${ranks} $<TARGET_FILE:mpi_ranks_test>)
    set_tests_properties(${name} PROPERTIES TIMEOUT 120
                         ENVIRONMENT "NG_TEST_RANKS=${ranks};${NG_MPI_SETTINGS}")
    list(APPEND waiting ${name})
  endforeach()
  list(JOIN NG_MPIRUN " " mpirun)
  foreach(name mpi_reduce_test mpi_supervise_test mpi_train_test)
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "NG_MPIRUN=${mpirun};${NG_MPI_SETTINGS}")
    set_tests_properties(${name} PROPERTIES TIMEOUT 240)
    list(APPEND waiting ${name})
  endforeach()
endif()

# Hosts that are namespaces; skipped by name where there are none.
add_test(NAME net_drill COMMAND tests/net/drill $<TARGET_FILE:narrowgauge> ${CMAKE_SOURCE_DIR}
                                "$<$<BOOL:${MPI_FOUND}>:${MPIEXEC_EXECUTABLE}>"
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(net_drill PROPERTIES LABELS net TIMEOUT 240 SKIP_RETURN_CODE 77)
# They wait more than they compute: one at a time, from the begin on, beside those that do (./test).
set_tests_properties(${waiting} net_drill PROPERTIES RESOURCE_LOCK ranks COST 200)

add_test(NAME packages_ask COMMAND tests/packages/ask WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(packages_ask PROPERTIES LABELS packages TIMEOUT 60 SKIP_RETURN_CODE 77)
add_test(NAME card_prove COMMAND tests/card/prove WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(card_prove PROPERTIES LABELS "benchmarks;fast" TIMEOUT 60)

find_program(NG_PYTHON3 python3)
if(NG_PYTHON3)
  add_test(NAME science_paired COMMAND ${NG_PYTHON3} -B -m doctest benchmarks/science/paired.py
                                     benchmarks/science/decide/losses.py
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(science_paired PROPERTIES LABELS "benchmarks;fast")
  # The commands of docs/sources.md that take half a minute of one core together.
  add_test(NAME sources_quick COMMAND scripts/sources --quick --program $<TARGET_FILE:narrowgauge>
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(sources_quick PROPERTIES LABELS sources TIMEOUT 600 COST 100)
  add_test(NAME sources_pages COMMAND tests/sources/pages WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(sources_pages PROPERTIES LABELS sources TIMEOUT 60)
endif()

file(GLOB_RECURSE benches CONFIGURE_DEPENDS src/*_bench.cc)
foreach(source IN LISTS benches)
  cmake_path(GET source STEM name)
  add_executable(${name} EXCLUDE_FROM_ALL ${source})
  target_link_libraries(${name} PRIVATE ${NG_LIBRARIES})
endforeach()

# All 2^32 inputs of every narrow cast: minutes of work for scripts/exhaustive, not for CTest.
add_executable(exhaustive_casts EXCLUDE_FROM_ALL tests/exhaustive/exhaustive_casts.cc)
target_link_libraries(exhaustive_casts PRIVATE ${NG_LIBRARIES} CLI11::CLI11)

# With libFuzzer (preset fuzz) a target explores; elsewhere it replays its corpus under CTest.
add_custom_target(fuzzers COMMENT "builds the fuzz targets")
file(GLOB_RECURSE fuzzers CONFIGURE_DEPENDS src/*_fuzz.cc)
foreach(source IN LISTS fuzzers)
  cmake_path(GET source STEM name)
  if(NG_FUZZ)
    add_executable(${name} ${source})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzzers)
  else()
    add_executable(${name} ${source} tests/fuzz/replay_main.cc)
    ng_add_test(${name} fuzz ${name} ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name})
  endif()
  target_link_libraries(${name} PRIVATE ${NG_LIBRARIES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  add_dependencies(fuzzers ${name})
endforeach()
