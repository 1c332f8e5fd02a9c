// What a page shows, and the page: one file of HTML that needs nothing else. Data go in as JSON;
// page.html, page.css, page.js and figures.js beside this file draw them, curves with dygraphs.
#pragma once

#include <cstdint>
#include <limits>
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

struct LineChart {
  enum class Unit : uint8_t { number, share, tiny };  ///< as is, in percent, as 1.0e-3
  std::string title;
  std::string y_label;
  Unit unit = Unit::number;
  bool log_y = false;
  bool wide = false;  ///< takes a whole row
  std::vector<Line> lines = {};
};

/// A matrix in colours.
struct HeatMap {
  std::string title;
  std::string note = {};
  int64_t rows = 0, cols = 0;
  std::vector<float> values = {};  ///< row by row
};

/// Heat maps with the colours of one scale.
struct HeatMaps {
  std::string label = {};  ///< of the values
  double low = 0, high = 0;
  std::vector<HeatMap> maps = {};
};

/// How the values of a tensor lie over the grids of formats: a bar for each binade of |x|, the
/// largest first, and what each format does to it.
struct GridHistogram {
  struct Row {
    std::string name;
    std::string states;  ///< a letter for each bar: binade_state()
  };
  std::string title;
  std::string note = {};
  int top = 0;                        ///< exponent of the first bar
  std::vector<uint64_t> counts = {};  ///< by binade
  uint64_t below = 0;                 ///< values below the last bar, zeros left out
  std::vector<Row> rows = {};
};

/// Charts, maps and histograms of which one group is seen at a time.
struct ChartChoice {
  std::string name;
  std::vector<LineChart> charts = {};
  HeatMaps maps = {};
  std::vector<GridHistogram> histograms = {};
};

/// How the values of each of several things lie, side by side: the mean, one deviation to both
/// sides of it, and the range.
struct RangeChart {
  struct Item {
    std::string name;
    std::string kind;   ///< items of a kind have one colour
    std::string group;  ///< what follows each other with one group is drawn as one
    int color = 0;      ///< of the palette
    double mean = 0, sd = 0, low = 0, high = 0;
    double floor =
        std::numeric_limits<double>::quiet_NaN();  ///< lines at +-floor beside it; NaN: none
  };
  std::string title;
  std::string y_label;
  std::string note = {};            ///< a sentence below
  std::vector<double> levels = {};  ///< that get a line where they are in sight
  bool spans_levels = false;        ///< all are in sight, and y reaches little further
  std::vector<Item> items = {};
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
  bool is_of_words = false;  ///< that may take several lines of a cell
};

struct Listing {
  std::string title;
  std::string text;
};

/// Part of a page; what is empty is left out.
struct Section {
  std::string heading;
  std::string note = {};
  std::vector<std::string> pictures = {};  ///< <svg> elements
  std::vector<LineChart> charts = {};
  std::vector<RangeChart> ranges = {};
  std::string choice_label = {};
  std::vector<ChartChoice> choices = {};
  std::vector<Bars> bars = {};
  Table table = {};
  std::vector<Listing> listings = {};
};

/// A line across all charts, between two steps, and what is written beside it where there is room.
struct Mark {
  double step = 0;
  std::vector<std::string> lines;
};

struct Page {
  std::string title;
  std::string subtitle;
  std::vector<std::pair<std::string, std::string>> facts;
  std::vector<Section> sections;
  std::vector<Mark> marks = {};
};

[[nodiscard]] Json json_of(const Page& page);
[[nodiscard]] std::string html_of(const Page& page);
/// What every page begins with.
[[nodiscard]] std::string_view html_begin();

}  // namespace ng::report
