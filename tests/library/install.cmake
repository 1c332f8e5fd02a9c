# Run by CTest with BUILD, SOURCE, COMPILER, NM, GENERATOR and MAKE: see cmake/library.cmake.
set(work ${BUILD}/library_install)
file(REMOVE_RECURSE ${work})

# Runs a command; its output ends up in `output`.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}: ${result}\n${text}")
  endif()
  set(output "${text}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${work}/prefix --component library)

# Every public header compiles alone, with the standard library only and all warnings.
file(GLOB headers ${work}/prefix/include/narrowgauge/*.h)
foreach(header IN LISTS headers)
  run(${COMPILER} -std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Werror -fsyntax-only
      -include ${header}
      -I${work}/prefix/include -x c++ /dev/null)
endforeach()
list(LENGTH headers count)
if(count LESS 7)
  message(FATAL_ERROR "only ${count} public headers")
endif()

# Symbols: those of the namespace, and no others.
file(GLOB_RECURSE library ${work}/prefix/*/libnarrowgauge.so)
run(${NM} -D --defined-only -C ${library})
string(REGEX REPLACE "\n$" "" output "${output}")
string(REPLACE ";" "," output "${output}")
string(REPLACE "\n" ";" lines "${output}")
list(LENGTH lines symbols)
foreach(line IN LISTS lines)
  if(NOT line MATCHES " [A-Z] (typeinfo (name )?for |vtable for )?narrowgauge::")
    message(FATAL_ERROR "exported beside namespace narrowgauge: ${line}")
  endif()
endforeach()
if(symbols LESS 40)
  message(FATAL_ERROR "only ${symbols} exported symbols:\n${output}")
endif()

# By the build tool that built the library: CMake's default one need not be installed.
run(${CMAKE_COMMAND} -S ${SOURCE}/examples/library -B ${work}/example
    -G ${GENERATOR} -DCMAKE_MAKE_PROGRAM=${MAKE}
    -DCMAKE_PREFIX_PATH=${work}/prefix -DCMAKE_CXX_COMPILER=${COMPILER})
run(${CMAKE_COMMAND} --build ${work}/example)
run(${work}/example/example)
foreach(expected "codes 7 C 1 2 E 0 2 8" "bytes C7 21 0E 82" "values 6 -2 0.5 1 -4 0 1 -0"
        "SQNR +18\\.[0-9]+ dB" "refused: unknown format \"mxfp5\": did you mean \"mxfp4\"")
  if(NOT output MATCHES "${expected}")
    message(FATAL_ERROR "the example does not print ${expected}:\n${output}")
  endif()
endforeach()
message(STATUS "${symbols} symbols\n${output}")
