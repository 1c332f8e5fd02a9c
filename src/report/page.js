// Draws the page from the JSON in #data. Charts: drag to zoom, double-click for the whole again,
// shift and drag to move. All charts show the same steps.
"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  // Okabe and Ito's colours, which colour-blind readers can tell apart, without their yellow, which
  // is hard to see on white. Lines beyond the seventh are dashed, those beyond the 14th dotted.
  const COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"];
  const DASHES = [null, [7, 3], [2, 3], [9, 3, 2, 3]];
  const colorOf = (line) => COLORS[line.color % COLORS.length];
  const dashOf = (line) => DASHES[Math.floor(line.color / COLORS.length) % DASHES.length];
  const {element, drawn, caption} = figures;
  const graphs = new Set();
  const whole = stepsOf(data);  // first and last step of all charts, with a little room
  let steps = whole;            // those that are shown

  function stepsOf(page) {
    const charts = page.sections.flatMap((section) =>
      [...section.charts, ...section.choices.flatMap((choice) => choice.charts)]);
    let first = Infinity, last = -Infinity;
    for (const line of charts.flatMap((chart) => chart.lines)) {
      if (line.x.length === 0) continue;
      first = Math.min(first, line.x[0]);
      last = Math.max(last, line.x[line.x.length - 1]);
    }
    const room = Math.max(0.01 * (last - first), 0.1);
    return [first - room, last + room];
  }

  // Numbers ---------------------------------------------------------------------------------------

  const tidy = (text) => text.replace(/(\.\d*?)0+($|e)/, "$1$2").replace(/\.($|e)/, "$1");
  function rounded(value, digits) {
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size < 1e-3 || size >= 1e7) return tidy(value.toExponential(digits - 1));
    if (size >= 10 ** digits) return Math.round(value).toLocaleString("en-US");
    return tidy(value.toPrecision(digits));
  }
  function shown(value, unit, digits) {
    if (unit === "share") return rounded(100 * value, digits) + " %";
    if (unit === "tiny" && value !== 0) return tidy(value.toExponential(digits - 1));
    return rounded(value, digits);
  }

  // Significant digits that tell the labels of a chart's y axis apart, about five of them.
  function digitsOf(graph, chart) {
    const least = chart.unit === "tiny" ? 2 : 3;
    const [low, high] = graph.yAxisRange();
    const apart = (high - low) / 10;
    const largest = Math.max(Math.abs(low), Math.abs(high));
    return apart > 0 ? Math.max(least, Math.ceil(Math.log10(largest / apart)) + 1) : least;
  }

  // Charts ----------------------------------------------------------------------------------------

  // Rows [x, [low, y, high], ...] over all x of all lines, as dygraphs takes them.
  function rowsOf(lines) {
    const rows = new Map();
    lines.forEach((line, column) => {
      line.x.forEach((x, i) => {
        if (!rows.has(x)) rows.set(x, [x, ...lines.map(() => null)]);
        const at = (values) => values && values[i] !== null ? values[i] : line.y[i];
        const cell = [at(line.low), line.y[i], at(line.high)];
        rows.get(x)[column + 1] = cell.map((value) => value === null ? NaN : value);
      });
    });
    return [...rows.values()].sort((a, b) => a[0] - b[0]);
  }

  // Points are marked where they are few; one alone would not be seen without.
  function seriesOptions(lines) {
    const options = {};
    for (const line of lines) {
      const marked = line.x.length < (line.style === "marked" ? 100 : 3);
      const dense = lines.length === 1 && line.x.length > 1000;
      options[line.name] = {
        color: colorOf(line) + (line.style === "faint" ? "60" : ""),
        strokeWidth: line.style === "faint" || dense ? 1 : 1.8,
        strokePattern: dashOf(line),
        drawPoints: marked,
        pointSize: 2.5,
      };
    }
    return options;
  }

  function showValues(box, chart, event, x, points) {
    box.replaceChildren();
    const table = element("table", box);
    const step = "step " + Math.round(x).toLocaleString("en-US");
    element("td", element("tr", table), "", step).colSpan = 3;
    for (const point of points) {
      const line = chart.lines.find((one) => one.name === point.name);
      const row = element("tr", table);
      swatch(element("td", row), line);
      row.firstChild.append(line.name);
      element("td", row, "number", shown(point.yval, chart.unit, 5));
      const i = line.x.indexOf(x);
      const band = line.low && line.low[i] !== null && line.low[i] !== line.high[i];
      if (band)
        element("td", row, "number",
                shown(line.low[i], chart.unit, 4) + " to " + shown(line.high[i], chart.unit, 4));
    }
    box.style.display = "block";
    const figure = box.parentElement.getBoundingClientRect();
    const pointer = event.clientX - figure.left;
    const left = pointer > figure.width / 2 ? pointer - box.offsetWidth - 18 : pointer + 18;
    box.style.left = Math.max(left, -10) + "px";
  }

  // After a double click dygraphs shows a chart's own steps.
  function zoomAll(graph, first, last) {
    const own = graph.xAxisExtremes();
    steps = first <= own[0] && last >= own[1] ? whole : [first, last];
    for (const one of graphs) one.updateOptions({dateWindow: steps});
  }

  const valuesOf = (chart) => chart.lines.flatMap((line) =>
    [...line.y, ...(line.low || []), ...(line.high || [])]).filter((y) => y !== null);

  // What hardly changes is drawn as a flat line: 0.1 % to both sides (of a learning rate, whose
  // labels are long, 10 %) have labels that differ.
  function valueRange(chart) {
    let low = Infinity, high = -Infinity;
    for (const y of valuesOf(chart)) {
      low = Math.min(low, y);
      high = Math.max(high, y);
    }
    if (chart.unit === "share") return [0, 1.06 * Math.max(0.0001, high)];
    const middle = (low + high) / 2;
    const room = (chart.unit === "tiny" ? 0.1 : 1e-3) * Math.abs(middle);
    return middle !== 0 && high - low < room ? [middle - room, middle + room] : null;
  }

  // Where settings changed or phases begin: a line, and on wide charts its number, of which
  // markTexts says what it is. Numbers that would touch stand in rows.
  function drawMarks(canvas, area, graph, wide) {
    const SIZE = 13;
    canvas.save();
    canvas.strokeStyle = "#777";
    canvas.setLineDash([5, 3]);
    canvas.font = "bold 11px Helvetica, Arial, sans-serif";
    canvas.textAlign = "center";
    let row = 0, last = -Infinity;
    (data.marks || []).forEach((mark, i) => {
      const x = graph.toDomXCoord(mark.step);
      if (x < area.x || x > area.x + area.w) return;
      canvas.beginPath();
      canvas.moveTo(x, area.y);
      canvas.lineTo(x, area.y + area.h);
      canvas.stroke();
      if (!wide) return;
      row = x - last < 2 * SIZE ? (row + 1) % 4 : 0;
      last = x;
      const number = String(i + 1), half = canvas.measureText(number).width / 2 + 2;
      canvas.fillStyle = "#fff";
      canvas.fillRect(x - half, area.y + SIZE * row, 2 * half, SIZE);
      canvas.fillStyle = "#555";
      canvas.fillText(number, x, area.y + SIZE * row + 10);
    });
    canvas.restore();
  }

  // What the numbers of marks stand for, below a wide chart.
  function markTexts(figure) {
    const MOST = 4;
    const list = element("ol", figure, "marks");
    for (const {step, lines} of data.marks) {
      const some = lines.length > MOST ?
        [...lines.slice(0, MOST - 1), `and ${lines.length - MOST + 1} more`] : lines;
      element("li", list, "", `after step ${Math.floor(step)}: ${some.join("; ")}`);
    }
  }

  function drawChart(parent, chart) {
    const figure = element("figure", parent, chart.wide ? "wide" : "");
    caption(figure, chart.title, chart.y_label);
    const plot = element("div", figure, "plot");
    const box = element("div", figure, "values");
    const lines = chart.lines.filter((line) => line.y.some((y) => y !== null));
    if (lines.length === 0) {
      plot.textContent = "nothing to show yet";
      return;
    }
    if (chart.unit === "share" && valuesOf(chart).every((y) => y === 0)) {
      plot.className = "nothing";
      plot.textContent = "0 % in every step";
      return;
    }
    const graph = new Dygraph(plot, rowsOf(lines), {
      labels: ["step", ...lines.map((line) => line.name)],
      series: seriesOptions(lines),
      customBars: true,
      fillAlpha: lines.length > 3 ? 0.12 : 0.2,
      connectSeparatedPoints: true,
      legend: "never",
      xlabel: chart.wide ? "step" : "",
      xLabelHeight: 15,
      logscale: chart.log_y,
      valueRange: valueRange(chart),
      yRangePad: chart.wide && (data.marks || []).length > 0 ? 16 : null,  // room for numbers
      dateWindow: steps,
      gridLineColor: "#e2e2e2",
      axisLineColor: "#888",
      underlayCallback: (canvas, area, graph) => drawMarks(canvas, area, graph, chart.wide),
      highlightCircleSize: 3.5,
      pixelRatio: Math.max(2, window.devicePixelRatio),  // sharp on paper
      axes: {
        x: {axisLabelFormatter: (x) => x.toLocaleString("en-US"), pixelsPerLabel: 45},
        y: {axisLabelFormatter: (y, granularity, options, graph) =>
              shown(y, chart.unit, digitsOf(graph, chart)),
            axisLabelWidth: 54, pixelsPerLabel: chart.log_y ? 16 : 28},
      },
      highlightCallback: (event, x, points) => showValues(box, chart, event, x, points),
      unhighlightCallback: () => { box.style.display = "none"; },
      zoomCallback: (first, last) => zoomAll(graph, first, last),
    });
    graphs.add(graph);
    if (chart.wide && (data.marks || []).length > 0) markTexts(figure);
  }

  function drawCharts(parent, charts) {
    if (charts.length === 0) return;
    drawLegend(parent, charts);
    const grid = element("div", parent, "charts");
    for (const chart of charts) drawChart(grid, chart);
  }

  // Legends ---------------------------------------------------------------------------------------

  function swatch(parent, line) {
    const svg = drawn("svg", parent, {viewBox: "0 0 24 10", class: "swatch"});
    const dash = dashOf(line);
    drawn("line", svg, {x1: 0, x2: 24, y1: 5, y2: 5, stroke: colorOf(line),
                        "stroke-width": line.style === "faint" ? 1 : 3,
                        "stroke-dasharray": dash ? dash.join(" ") : "none"});
    parent.prepend(svg);
  }

  // One entry for each name among the charts' lines; none where no chart has two of them.
  function drawLegend(parent, charts) {
    if (charts.every((chart) => chart.lines.length < 2)) return;
    const lines = new Map();
    for (const chart of charts)
      for (const line of chart.lines)
        if (!lines.has(line.name)) lines.set(line.name, line);
    const legend = element("div", parent, "legend");
    for (const line of [...lines.values()].sort((a, b) => a.color - b.color))
      swatch(element("span", legend, "", line.name), line);
  }

  // Ranges ----------------------------------------------------------------------------------------

  function drawRanges(parent, ranges) {
    for (const chart of ranges) {
      const kinds = new Map(chart.items.map((item) =>
        [item.kind, {name: item.kind, color: item.color, style: "plain"}]));
      drawLegend(parent, [{lines: [...kinds.values()]}]);
      figures.drawRanges(parent, chart, colorOf);
    }
  }

  // The rest of a section -------------------------------------------------------------------------

  function drawChoices(parent, section) {
    if (section.choices.length === 0) return;
    const line = element("div", parent, "choice");
    line.hidden = section.choices.length === 1;
    const label = element("label", line, "", section.choice_label + " ");
    const select = element("select", label);
    for (const choice of section.choices) element("option", select, "", choice.name);
    const place = element("div", parent);
    let own = [];
    const draw = () => {
      for (const graph of own) {
        graphs.delete(graph);
        graph.destroy();
      }
      place.replaceChildren();
      const before = new Set(graphs);
      const choice = section.choices[select.selectedIndex];
      drawCharts(place, choice.charts);
      if (choice.maps) figures.drawMaps(place, choice.maps);
      for (const histogram of choice.histograms || []) figures.drawGrid(place, histogram);
      own = [...graphs].filter((graph) => !before.has(graph));
    };
    select.addEventListener("change", draw);
    draw();
  }

  function drawBars(parent, section) {
    if (section.bars.length === 0) return;
    const grid = element("div", parent, "bars");
    for (const group of section.bars) {
      const part = element("div", grid);
      element("h3", part, "", group.title);
      const table = element("table", part);
      const most = Math.max(...group.bars.map((bar) => bar.value));
      for (const bar of group.bars) {
        const row = element("tr", table);
        element("td", row, "", bar.name);
        const length = most > 0 ? 100 * bar.value / most : 0;
        element("div", element("td", row, "bar")).style.width = length + "%";
        element("td", row, "number", bar.text);
      }
    }
  }

  function drawTable(parent, table) {
    if (table.rows.length === 0) return;
    const kind = table.is_of_words ? " words" : table.heading.length > 8 ? " many" : "";
    const made = element("table", parent, "numbers" + kind);
    const heading = element("tr", element("thead", made));
    for (const text of table.heading) element("th", heading, "", text);
    const body = element("tbody", made);
    for (const cells of table.rows) {
      const row = element("tr", body);
      for (const cell of cells) {
        const place = element("td", row);
        if (cell.link) element("a", place, "", cell.text).href = cell.link;
        else place.textContent = cell.text;
      }
    }
  }

  function drawSection(parent, section) {
    const part = element("section", parent);
    element("h2", part, "", section.heading);
    for (const text of section.note ? section.note.split("\n") : [])
      element("p", part, "note", text);
    for (const svg of section.pictures) element("figure", part, "picture").innerHTML = svg;
    drawTable(part, section.table);
    drawCharts(part, section.charts);
    drawRanges(part, section.ranges);
    drawChoices(part, section);
    drawBars(part, section);
    for (const listing of section.listings) {
      element("h3", part, "", listing.title);
      element("pre", part, listing.text.split("\n").length > 20 ? "long" : "", listing.text);
    }
  }

  function drawPage() {
    document.title = data.title;
    const page = document.getElementById("page");
    element("h1", page, "", data.title);
    element("p", page, "subtitle", data.subtitle);
    const facts = element("dl", page, "facts");
    for (const [name, value] of data.facts) {
      element("dt", facts, "", name);
      element("dd", facts, "", value);
    }
    const hasSteps = data.sections.some((section) =>
      section.charts.length > 0 || section.choices.some((choice) => choice.charts.length > 0));
    if (hasSteps)
      element("p", page, "note screen-only", "In the charts: drag to zoom, double-click for " +
              "everything again, shift and drag to move. Horizontal axes are steps, the same in " +
              "all charts. Bands go from the lowest to the highest value." +
              ((data.marks || []).length === 0 ? "" : " Dashed lines upright are where settings " +
               "changed or a phase of the recipe begins; the list below the chart says which."));
    for (const section of data.sections) drawSection(page, section);
    element("p", element("footer", page), "", "Made by " + data.made_by + (!hasSteps ? "." :
            "; charts by dygraphs (MIT licence, in the source of this page)."));
  }

  // For paper: see page.css.
  function noteWidth() {
    document.body.style.setProperty("--shown", document.getElementById("page").clientWidth);
  }

  window.addEventListener("error", (event) => {
    element("p", document.body, "error", "This page could not be drawn: " + event.message);
  });
  window.addEventListener("resize", noteWidth);
  drawPage();
  noteWidth();
})();
