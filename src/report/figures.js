// Figures that dygraphs does not have: ranges of values side by side, and maps of matrices; and how
// elements are made.
"use strict";
const figures = (function () {
  // Ten colours of viridis, between which others are mixed: equal steps look equal, also to
  // colour-blind readers and in print without colours. [Smith and van der Walt, 2015]
  const VIRIDIS = [[68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142],
                   [31, 158, 137], [53, 183, 121], [109, 205, 89], [180, 222, 44], [253, 231, 37]];
  const UNKNOWN = [221, 221, 221];

  function element(tag, parent, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  }

  function drawn(tag, parent, look, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(look)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  const shown = (value) => value === null ? "not finite" : String(Number(value.toPrecision(4)));

  function caption(figure, title, note) {
    const line = element("figcaption", figure, "", title + " ");
    element("span", line, "", note);
  }

  // Ranges ----------------------------------------------------------------------------------------

  const WIDTH = 960, HEIGHT = 300, LEFT = 48, RIGHT = 10, TOP = 8, BOTTOM = 26;

  // Multiples of 1, 2 or 5 times a power of ten, about six of them.
  function ticksOf(low, high) {
    const least = (high - low) / 6, power = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= least);
    const ticks = [];
    for (let i = Math.ceil(low / step); i * step <= high; ++i) ticks.push(i * step);
    return ticks;
  }

  // Items of one group that follow each other, with their places.
  function groupsOf(items) {
    const groups = [];
    items.forEach((item, i) => {
      if (i === 0 || item.group !== items[i - 1].group)
        groups.push({name: item.group, begin: i, items: []});
      groups[groups.length - 1].items.push(item);
    });
    return groups;
  }

  function drawGroups(svg, groups, x, y) {
    let free = 0;  // from where on a name has room
    for (const group of groups) {
      const begin = x(group.begin), end = x(group.begin + group.items.length);
      const middle = (begin + end) / 2, half = 4 + 3.5 * group.name.length;
      if (group.begin > 0)
        drawn("line", svg, {class: "between", x1: begin, x2: begin, y1: TOP, y2: HEIGHT - BOTTOM});
      for (const edge of [Math.min(...group.items.map((item) => item.low)),
                          Math.max(...group.items.map((item) => item.high))])
        drawn("line", svg, {class: "group", x1: begin, x2: end, y1: y(edge), y2: y(edge)});
      if (middle - half < free) continue;
      drawn("text", svg, {x: middle, y: HEIGHT - BOTTOM + 16, "text-anchor": "middle"}, group.name);
      free = middle + half;
    }
  }

  function drawItem(svg, item, middle, width, y, color) {
    const part = drawn("g", svg, {stroke: color, fill: color});
    drawn("line", part, {x1: middle, x2: middle, y1: y(item.low), y2: y(item.high),
                         "stroke-width": Math.min(1.5, width)});
    drawn("line", part, {x1: middle, x2: middle, y1: y(item.mean - item.sd),
                         y2: y(item.mean + item.sd), "stroke-width": Math.min(6, 0.6 * width)});
    drawn("circle", part, {cx: middle, cy: y(item.mean), r: Math.min(3.5, 0.5 * width),
                           stroke: "#fff", "stroke-width": 0.7});
    drawn("title", part, {}, item.name + ": " + shown(item.mean) + " ± " + shown(item.sd) + ", " +
                             shown(item.low) + " to " + shown(item.high));
  }

  function drawRanges(parent, chart, colorOf) {
    const figure = element("figure", parent, "wide");
    caption(figure, chart.title, chart.y_label);
    const items = chart.items.filter((item) => item.mean !== null);
    if (items.length === 0) return;
    const ends = items.flatMap((item) =>
      [item.low, item.high, item.mean - item.sd, item.mean + item.sd]);
    if (chart.spans_levels) ends.push(...chart.levels);
    for (const {floor} of items) if (floor !== null) ends.push(-floor, floor);
    const least = Math.min(...ends), most = Math.max(...ends);
    const room = Math.max(0.05 * (most - least), chart.spans_levels ? 1e-9 : 0.05);
    const low = least - room, high = most + room;
    const width = (WIDTH - LEFT - RIGHT) / items.length;
    const x = (i) => LEFT + i * width;
    const y = (value) => TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM);
    const svg = drawn("svg", figure, {class: "ranges", viewBox: `0 0 ${WIDTH} ${HEIGHT}`});
    for (const tick of ticksOf(low, high)) {
      drawn("line", svg, {class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick)});
      drawn("text", svg, {x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end"}, shown(tick));
    }
    for (const level of chart.levels.filter((value) => value > low && value < high))
      drawn("line", svg, {class: "level", x1: LEFT, x2: WIDTH - RIGHT, y1: y(level), y2: y(level)});
    drawGroups(svg, groupsOf(items), x, y);
    items.forEach((item, i) => {
      for (const edge of item.floor === null ? [] : [-item.floor, item.floor])
        drawn("line", svg, {class: "level", x1: x(i), x2: x(i + 1), y1: y(edge), y2: y(edge)});
    });
    items.forEach((item, i) => drawItem(svg, item, x(i + 0.5), width, y, colorOf(item)));
    if (chart.note) element("p", figure, "note", chart.note);
  }

  // Maps ------------------------------------------------------------------------------------------

  // share: from 0 to 1 along the scale.
  function colorAt(share) {
    const at = Math.min(Math.max(share, 0), 1) * (VIRIDIS.length - 1);
    const i = Math.min(Math.floor(at), VIRIDIS.length - 2);
    return VIRIDIS[i].map((one, part) => one + (at - i) * (VIRIDIS[i + 1][part] - one));
  }

  // A canvas of one pixel a value; CSS makes them larger.
  function paint(canvas, rows, cols, colorOfCell) {
    canvas.width = cols;
    canvas.height = rows;
    const context = canvas.getContext("2d"), image = context.createImageData(cols, rows);
    for (let i = 0; i < rows * cols; ++i) image.data.set([...colorOfCell(i), 255], 4 * i);
    context.putImageData(image, 0, 0);
  }

  function drawScale(parent, scale) {
    const line = element("div", parent, "scale");
    element("span", line, "", scale.label);
    element("span", line, "", shown(scale.low));
    paint(element("canvas", line), 1, 256, (i) => colorAt(i / 255));
    element("span", line, "", shown(scale.high));
  }

  function showCell(box, canvas, map, event) {
    const place = canvas.getBoundingClientRect();
    const at = (pointer, begin, size, count) =>
      Math.min(Math.max(Math.floor((pointer - begin) / size * count), 0), count - 1);
    const row = at(event.clientY, place.top, place.height, map.rows);
    const col = at(event.clientX, place.left, place.width, map.cols);
    box.textContent = `row ${row}, column ${col}: ${shown(map.values[row * map.cols + col])}`;
    box.style.display = "block";
    box.style.left = event.clientX - place.left + 14 + "px";
  }

  // Cells are squares of 4 to 20 pixels, so that the longer side is some 260.
  function drawMap(parent, map, scale) {
    const figure = element("figure", parent);
    caption(figure, map.title, map.note);
    const canvas = element("canvas", figure, "map"), box = element("div", figure, "values");
    const cell = Math.min(Math.max(Math.floor(260 / Math.max(map.rows, map.cols)), 4), 20);
    const extent = scale.high - scale.low;
    canvas.style.width = cell * map.cols + "px";
    canvas.style.aspectRatio = `${map.cols} / ${map.rows}`;
    paint(canvas, map.rows, map.cols, (i) => {
      const value = map.values[i];
      return value === null ? UNKNOWN : colorAt(extent > 0 ? (value - scale.low) / extent : 0.5);
    });
    canvas.addEventListener("mousemove", (event) => showCell(box, canvas, map, event));
    canvas.addEventListener("mouseleave", () => { box.style.display = "none"; });
  }

  function drawMaps(parent, maps) {
    drawScale(parent, maps);
    const grid = element("div", parent, "maps");
    for (const map of maps.maps) drawMap(grid, map, maps);
  }

  // Histograms over the grids of formats ----------------------------------------------------------

  // What binade_state() means. Light is kept, dark is lost.
  const STATES = [["N", "normal in every block", "#c6dbef"], ["n", "normal in some", "#6baed6"],
                  ["s", "subnormal", "#2171b5"], ["0", "becomes zero", "#4d004b"],
                  ["^", "saturates", "#D55E00"], ["?", "every block is NaN", "#888888"]];
  const LINE = 18, NAMES = 110, BARS = 150;

  function drawStates(parent, rows) {
    const legend = element("div", parent, "legend");
    for (const [letter, meaning, color] of STATES) {
      if (!rows.some(([, states]) => states.includes(letter))) continue;
      const entry = element("span", legend);
      element("span", entry, "swatch").style.background = color;
      entry.append(letter === "^" || letter === "?" || letter === "0" ? meaning :
                   letter + ": " + meaning);
    }
  }

  // Columns are binades, the smallest left.
  function drawGrid(parent, grid) {
    const figure = element("figure", parent, "picture");
    caption(figure, grid.title, grid.note);
    const count = grid.counts.length;
    if (count === 0) return;
    drawStates(figure, grid.rows);
    const total = grid.counts.reduce((sum, one) => sum + one, grid.below);
    const most = Math.max(...grid.counts), width = (WIDTH - NAMES - RIGHT) / count;
    const height = TOP + BARS + LINE + 6 + LINE * grid.rows.length + 4;
    const svg = drawn("svg", figure, {class: "ranges", viewBox: `0 0 ${WIDTH} ${height}`});
    const every = Math.ceil(44 / width);  // labels have room
    for (let i = 0; i < count; ++i) {
      const x = NAMES + (count - 1 - i) * width, size = grid.counts[i] / most * BARS;
      const bar = drawn("rect", svg, {x, y: TOP + BARS - size, width: 0.92 * width, height: size,
                                      fill: "#555"});
      const name = `2^${grid.top - i}`, share = (100 * grid.counts[i] / total).toPrecision(3);
      drawn("title", bar, {}, `|x| from ${name}: ${grid.counts[i]} values, ${share} %`);
      if (i % every === 0)
        drawn("text", svg, {x: x + width / 2, y: TOP + BARS + 14, "text-anchor": "middle"}, name);
      grid.rows.forEach(([format, states], row) => {
        const y = TOP + BARS + LINE + 6 + row * LINE;
        const look = STATES.find(([letter]) => letter === states[i]);
        const cell = drawn("rect", svg, {x, y, width: 0.98 * width, height: LINE - 3,
                                         fill: look[2]});
        drawn("title", cell, {}, `${format}, from ${name}: ${look[1]}`);
      });
    }
    grid.rows.forEach(([format], row) =>
      drawn("text", svg, {x: NAMES - 8, y: TOP + BARS + LINE + 18 + row * LINE,
                          "text-anchor": "end"}, format));
    drawn("text", svg, {x: NAMES - 8, y: TOP + 12, "text-anchor": "end"}, "share of |x|");
    drawn("text", svg, {x: NAMES - 8, y: TOP + 28, "text-anchor": "end"},
          `most ${(100 * most / total).toPrecision(3)} %`);
    if (grid.below > 0)
      element("p", figure, "note", `${grid.below} values that are smaller are not drawn.`);
  }

  return {element, drawn, caption, drawRanges, drawMaps, drawGrid};
})();
