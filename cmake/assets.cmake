# The files that a report is made of, as texts in the program. Included, it adds the rule that
# makes ${NG_ASSETS}; cmake -DOUT=... "-DFILES=kName=/path;..." -P assets.cmake makes OUT.
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
