# The files that a report is made of, as texts in the program. Included, it adds the rule that
# makes ${NG_ASSETS}; cmake -DOUT=... "-DFILES=kName=/path;..." -P assets.cmake makes OUT. What
# studies say is written into ${NG_STUDY_TEXTS} at once: cmake runs again where it changes.
if(CMAKE_SCRIPT_MODE_FILE)
  string(APPEND code "// Made by cmake/assets.cmake.\n#include \"report/assets.h\"\n\n"
                     "namespace ng::report {\nusing namespace std::string_view_literals;\n")
  foreach(entry IN LISTS FILES)
    string(REGEX MATCH "^([^=]+)=(.+)$" whole "${entry}")
    set(name ${CMAKE_MATCH_1})
    file(READ "${CMAKE_MATCH_2}" text)
    # A page asks for nothing from outside, not even for what a debugger would like to have.
    string(REGEX REPLACE "/[/*]# sourceMappingURL=[^\n]*" "" text "${text}")
    string(APPEND code "const std::string_view ${name} = R\"ng_text(${text})ng_text\"sv;\n")
  endforeach()
  file(WRITE "${OUT}" "${code}}  // namespace ng::report\n")
  return()
endif()

find_file(DYGRAPH_JS dygraph.min.js PATHS /usr/share/javascript/dygraphs REQUIRED)
find_file(DYGRAPH_CSS dygraph.min.css PATHS /usr/share/javascript/dygraphs REQUIRED)
find_file(DYGRAPH_LICENCE copyright PATHS /usr/share/doc/libjs-dygraphs NO_DEFAULT_PATH REQUIRED)
set(page ${CMAKE_SOURCE_DIR}/src/report/page)
set(figures ${CMAKE_SOURCE_DIR}/src/report/figures.js)
set(assets kPageHtml=${page}.html kPageCss=${page}.css kPageJs=${page}.js kFiguresJs=${figures}
           kDygraphJs=${DYGRAPH_JS} kDygraphCss=${DYGRAPH_CSS} kDygraphLicence=${DYGRAPH_LICENCE})
set(NG_ASSETS ${CMAKE_BINARY_DIR}/report_assets.cc)
add_custom_command(
  OUTPUT ${NG_ASSETS}
  COMMAND ${CMAKE_COMMAND} -DOUT=${NG_ASSETS}
          "-DFILES=${assets}"
          -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${page}.html ${page}.css ${page}.js ${figures} ${DYGRAPH_JS} ${CMAKE_CURRENT_LIST_FILE}
  VERBATIM)

file(GLOB studies CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/study/*.md)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${studies})
set(cases "")
foreach(file IN LISTS studies)
  cmake_path(GET file STEM name)
  file(READ ${file} text)
  string(APPEND cases "  if (study == \"${name}\") return R\"ng_text(${text})ng_text\";\n")
endforeach()
set(NG_STUDY_TEXTS ${CMAKE_BINARY_DIR}/study_texts.cc)
file(CONFIGURE OUTPUT ${NG_STUDY_TEXTS} @ONLY CONTENT "// Made by cmake/assets.cmake.
#include \"base/error.h\"
#include \"study/written.h\"

namespace ng::study {
std::string_view written_text(std::string_view study) {  // NOLINT(readability-function-size)
@cases@  NG_CHECK(false, study);
  return {};
}
}  // namespace ng::study
")
