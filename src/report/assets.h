// Files that a page is made of, put into the program by cmake/embed.cmake.
#pragma once

#include <string_view>

namespace ng::report {

extern const std::string_view kPageHtml;        ///< page.html, with {{name}} where parts go
extern const std::string_view kPageCss;         ///< page.css
extern const std::string_view kPageJs;          ///< page.js
extern const std::string_view kFiguresJs;       ///< figures.js
extern const std::string_view kDygraphJs;       ///< the chart library, as its package has it
extern const std::string_view kDygraphCss;      ///< its style
extern const std::string_view kDygraphLicence;  ///< its copyright and licence notice

}  // namespace ng::report
