# The shared library: src/library and what it needs of the program's libraries, showing only
# namespace narrowgauge. find_package(NarrowGauge) gives NarrowGauge::narrowgauge.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(exports ${CMAKE_SOURCE_DIR}/src/library/exports.map)
add_library(narrowgauge_library SHARED $<TARGET_OBJECTS:ng_library>)
target_link_libraries(narrowgauge_library PRIVATE ng_library)
target_link_options(narrowgauge_library PRIVATE -Wl,--as-needed -Wl,--version-script=${exports})
target_include_directories(narrowgauge_library INTERFACE $<INSTALL_INTERFACE:include>)
target_compile_features(narrowgauge_library INTERFACE cxx_std_20)
set_target_properties(narrowgauge_library PROPERTIES
                      OUTPUT_NAME narrowgauge EXPORT_NAME narrowgauge LINK_DEPENDS ${exports}
                      VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/NarrowGauge)
install(TARGETS narrowgauge_library EXPORT NarrowGauge COMPONENT library
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_COMPONENT library)
install(DIRECTORY include/narrowgauge COMPONENT library DESTINATION include)
install(EXPORT NarrowGauge FILE NarrowGaugeConfig.cmake NAMESPACE NarrowGauge::
        COMPONENT library DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/NarrowGaugeConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/NarrowGaugeConfigVersion.cmake
        COMPONENT library DESTINATION ${package})

# Installs it into an empty prefix, looks at its symbols, builds and runs examples/library with it.
# Not under sanitizers, whose runtime the example would need.
if(NOT NG_SANITIZE)
  add_test(NAME library_install
           COMMAND ${CMAKE_COMMAND} -DBUILD=${CMAKE_BINARY_DIR} -DSOURCE=${CMAKE_SOURCE_DIR}
                   -DCOMPILER=${CMAKE_CXX_COMPILER} -DNM=${CMAKE_NM}
                   -DGENERATOR=${CMAKE_GENERATOR} -DMAKE=${CMAKE_MAKE_PROGRAM}
                   -P ${CMAKE_SOURCE_DIR}/tests/library/install.cmake)
  set_tests_properties(library_install PROPERTIES LABELS library TIMEOUT 300)
endif()
