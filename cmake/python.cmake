# The Python package: narrowgauge/_core from bindings/*.cc, its type stub and the recipes, which pip
# puts beside bindings/narrowgauge (pyproject.toml). [docs/python.md]
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module ${SKBUILD_SABI_COMPONENT})
find_package(nanobind CONFIG REQUIRED)

set(CMAKE_EXPORT_COMPILE_COMMANDS ON)  # for scripts/tidy
file(GLOB bindings CONFIGURE_DEPENDS bindings/*.cc)
nanobind_add_module(_core STABLE_ABI NB_STATIC ${bindings})
set(libraries ${NG_LIBRARIES})
list(REMOVE_ITEM libraries ng_speed ng_study)
target_link_libraries(_core PRIVATE ${libraries})
# Backends beside those of ng_run: of a card with NG_CUDA=ON; for tests an emulated one.
find_library(NG_EMULATED ng_cuda_emulated PATHS "${NG_PREBUILT}" NO_DEFAULT_PATH)
if(TARGET ng_cards)
  target_sources(_core PRIVATE src/run/backend_rows.cc)
  target_link_libraries(_core PRIVATE ng_cards)
elseif(NG_PREBUILT AND NG_EMULATED)
  target_sources(_core PRIVATE tests/cuda/backend_rows.cc)
  target_link_libraries(_core PRIVATE ${NG_EMULATED} boost_context)
endif()
target_include_directories(_core SYSTEM PRIVATE ${NB_DIR}/include)  # not up to our warnings
target_compile_options(_core PRIVATE ${NG_COMPILES_FAST})

nanobind_add_stub(_core_stub MODULE _core OUTPUT _core.pyi MARKER_FILE py.typed DEPENDS _core
                  PYTHON_PATH $<TARGET_FILE_DIR:_core>)

install(TARGETS _core COMPONENT python LIBRARY DESTINATION narrowgauge)
install(FILES ${CMAKE_BINARY_DIR}/_core.pyi ${CMAKE_BINARY_DIR}/py.typed COMPONENT python
        DESTINATION narrowgauge)
install(DIRECTORY recipes COMPONENT python DESTINATION narrowgauge)
if(NG_LICENCES)  # of what lies inside a wheel: scripts/wheel
  install(DIRECTORY ${NG_LICENCES}/ COMPONENT python DESTINATION ${SKBUILD_METADATA_DIR}/licenses)
endif()
