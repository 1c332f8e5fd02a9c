// report.html of a search.
#pragma once

#include "report/page.h"
#include "search/search_report.h"

namespace ng::search {

[[nodiscard]] report::Page search_page(const SearchReport& report);

}  // namespace ng::search
