// What a page shows, and the page: one file of HTML that needs nothing else. Data go in as JSON;
// page.html, page.css and page.js beside this file draw them with dygraphs.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "report/series.h"

namespace ng::report {

/// A curve. NaN is a gap.
struct Line {
  /// How it is drawn: a curve, a thin one behind the others, a curve with its points marked.
  enum class Style : uint8_t { plain, faint, marked };
  std::string name;
  int color = 0;  ///< of the palette; lines of a name have one colour on the whole page
  Style style = Style::plain;
  std::vector<double> x;
  std::vector<double> y;
  std::vector<double> low = {}, high = {};  ///< a band around y, or empty
};

/// Mean, lowest and highest of each bucket; no band where each holds one value.
[[nodiscard]] Line line_of(const std::string& name, int color, const Series& series);

struct Chart {
  enum class Unit : uint8_t { number, share, tiny };  ///< as is, in percent, as 1.0e-3
  std::string title;
  std::string y_label;
  Unit unit = Unit::number;
  bool log_y = false;
  bool wide = false;  ///< takes a whole row
  std::vector<Line> lines = {};
};

/// Charts of which one group is seen at a time.
struct ChartChoice {
  std::string name;
  std::vector<Chart> charts;
};

struct Bar {
  std::string name;
  double value = 0;
  std::string text;
};

struct Bars {
  std::string title;
  std::vector<Bar> bars;
};

struct Cell {
  std::string text;
  std::string link = {};  ///< relative, or empty
};

struct Table {
  std::vector<std::string> heading;
  std::vector<std::vector<Cell>> rows;
};

struct Listing {
  std::string title;
  std::string text;
};

/// Part of a page; what is empty is left out.
struct Section {
  std::string heading;
  std::string note = {};
  std::vector<Chart> charts = {};
  std::string choice_label = {};
  std::vector<ChartChoice> choices = {};
  std::vector<Bars> bars = {};
  Table table = {};
  std::vector<Listing> listings = {};
};

struct Page {
  std::string title;
  std::string subtitle;
  std::vector<std::pair<std::string, std::string>> facts;
  std::vector<Section> sections;
};

[[nodiscard]] Json json_of(const Page& page);
[[nodiscard]] std::string html_of(const Page& page);
/// What every page begins with.
[[nodiscard]] std::string_view html_begin();

}  // namespace ng::report
