"""Pictures of the comparison as SVG: lines with bands, points with intervals, a loss-time plane."""

import math
from xml.sax.saxutils import escape

FONT = 13
# Okabe and Ito, "Color Universal Design" (2008), as the program's own charts; dashes tell the
# series apart without colour.
LOOKS = [("#000000", ""), ("#0072B2", ""), ("#E69F00", "7 3"), ("#009E73", "2 3"),
         ("#D55E00", "9 3 2 3"), ("#56B4E9", "12 3"), ("#CC79A7", "4 2"), ("#777777", "2 2 6 2")]


def text_width(text, font=FONT):
    """About: sans-serif letters are 0.55 of their size on average."""
    return 0.56 * font * len(text)


def round_ticks(low, high, most):
    """Round numbers within [low, high], 1, 2 or 5 · 10^n apart."""
    least = (high - low) / most
    decade = 10 ** math.floor(math.log10(least))
    step = next(f * decade for f in (1, 2, 5, 10) if f * decade >= least * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def tick_texts(ticks):
    step = min((b - a for a, b in zip(ticks, ticks[1:])), default=1)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return [f"{tick:,.{decimals}f}" for tick in ticks]


class Axis:
    def __init__(self, low, high, begin, end, log=False):
        self.low, self.high, self.begin, self.end, self.log = low, high, begin, end, log

    def at(self, value):
        share = (math.log(value / self.low) / math.log(self.high / self.low) if self.log
                 else (value - self.low) / (self.high - self.low))
        return self.begin + share * (self.end - self.begin)

    def ticks(self, most):
        if not self.log:
            return round_ticks(self.low, self.high, most)
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        return [f * 10.0 ** d for d in decades for f in (1, 2, 5)
                if self.low * (1 - 1e-9) <= f * 10.0 ** d <= self.high * (1 + 1e-9)]


class Picture:
    def __init__(self, width, height, title):
        self.width, self.height, self.title, self.parts = width, height, title, []

    def line(self, x1, y1, x2, y2, style):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
                          f'{style}/>')

    def text(self, x, y, content, anchor="start", style=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {style}>'
                          f'{escape(content)}</text>')

    def path(self, points, style):
        places = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.parts.append(f'<path d="M{places}" {style}/>')

    def band(self, upper, lower, colour):
        self.path(upper + lower[::-1], f'fill="{colour}" fill-opacity="0.15" stroke="none"')

    def dot(self, x, y, colour):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')

    def axes(self, x, y, x_name, y_name, x_ticks=8, y_ticks=7):
        """Grid lines, ticks and names around the area of two axes."""
        for value, label in labelled(y, y_ticks):
            self.line(x.begin, y.at(value), x.end, y.at(value), 'stroke="#ddd"')
            self.text(x.begin - 7, y.at(value) + 4.5, label, "end")
        for value, label in labelled(x, x_ticks):
            self.line(x.at(value), y.begin, x.at(value), y.begin + 5, 'stroke="#333"')
            self.text(x.at(value), y.begin + 19, label, "middle")
        self.line(x.begin, y.begin, x.end, y.begin, 'stroke="#333"')
        self.line(x.begin, y.begin, x.begin, y.end, 'stroke="#333"')
        self.text((x.begin + x.end) / 2, y.begin + 40, x_name, "middle")
        self.text(0, 0, y_name, "middle",
                  f'transform="translate(15 {(y.begin + y.end) / 2:.1f}) rotate(-90)"')

    def svg(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} '
                f'{self.height}" role="img" font-family="Helvetica, Arial, sans-serif" '
                f'font-size="{FONT}" fill="#222">\n<title>{escape(self.title)}</title>\n'
                f'<rect width="{self.width}" height="{self.height}" fill="#fff"/>\n'
                + "\n".join(self.parts) + "\n</svg>\n")


def labelled(axis, most):
    ticks = axis.ticks(most)
    texts = [f"{tick:,g}" for tick in ticks] if axis.log else tick_texts(ticks)
    return list(zip(ticks, texts))


def widened(values, share=0.06):
    low, high = min(values), max(values)
    room = share * (high - low) or 1e-3
    return low - room, high + room


def stroke(look):
    colour, dash = look
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'fill="none" stroke="{colour}" stroke-width="1.8"{dashed}'


def curves(title, series, y_name, first_look=0):
    """series: [(name, steps, low, middle, high)], at most eight; the steps on a log axis."""
    picture = Picture(860, 460, title)
    top = 22 + 18 * ((len(series) - 1) // 4)
    everything = [v for _, _, low, _, high in series for v in low + high]
    x = Axis(series[0][1][0], series[0][1][-1], 70, 844, log=True)
    y = Axis(*widened(everything), 404, top + 12)
    picture.axes(x, y, "step", y_name)
    for number, (name, steps, low, middle, high) in enumerate(series):
        look = LOOKS[first_look + number]
        at = [x.at(step) for step in steps]
        picture.band([*zip(at, map(y.at, high))], [*zip(at, map(y.at, low))], look[0])
        picture.path([*zip(at, map(y.at, middle))], stroke(look))
        left, row = 70 + 195 * (number % 4), 20 + 18 * (number // 4)
        picture.line(left, row - 4.5, left + 24, row - 4.5, stroke(look))
        picture.text(left + 30, row, name)
    return picture.svg()


def intervals(title, rows, x_name, equal):
    """rows: [(name, mean, half, colour)]; a grey strip marks what counts as equal."""
    height = 70 + 22 * len(rows)
    picture = Picture(860, height, title)
    left = 30 + max(text_width(name) for name, *_ in rows)
    ends = [mean + sign * (0 if math.isnan(half) else half)
            for _, mean, half, _ in rows for sign in (-1, 1)]
    x = Axis(*widened(ends + [-equal, equal]), left, 844)
    bottom = height - 52
    picture.parts.append(f'<rect x="{x.at(-equal):.1f}" y="8" '
                         f'width="{x.at(equal) - x.at(-equal):.1f}" height="{bottom - 8}" '
                         'fill="#000" fill-opacity="0.08"/>')
    for value, label in labelled(x, 8):
        picture.line(x.at(value), 8, x.at(value), bottom, 'stroke="#ddd"')
        picture.text(x.at(value), bottom + 18, label, "middle")
    picture.line(x.at(0), 8, x.at(0), bottom, 'stroke="#333"')
    picture.text((left + 844) / 2, bottom + 40, x_name, "middle")
    for number, (name, mean, half, colour) in enumerate(rows):
        middle = 22 + 22 * number
        picture.text(left - 10, middle + 4.5, name, "end")
        if not math.isnan(half):
            picture.line(x.at(mean - half), middle, x.at(mean + half), middle,
                         f'stroke="{colour}" stroke-width="2"')
        picture.dot(x.at(mean), middle, colour)
    return picture.svg()


def free_place(taken, x, y, width):
    """Where a label beside the point (x, y) covers none of `taken`; the rightmost else."""
    offsets = [(8, 4.5), (-8 - width, 4.5), (-width / 2, -9), (-width / 2, 19), (8, -9), (8, 18),
               (-8 - width, -9), (-8 - width, 18), (8, -22), (8, 31), (-8 - width, 31)]
    for dx, dy in offsets:
        box = (x + dx, y + dy - 11, x + dx + width, y + dy + 3)
        if box[0] > 66 and box[2] < 856 and not any(
                box[0] < t[2] and t[0] < box[2] and box[1] < t[3] and t[1] < box[3]
                for t in taken):
            return box
    return (x + 8, y - 6.5, x + 8 + width, y + 7.5)


def plane(title, points, x_name, y_name, front):
    """points: {name: (x, y, half)}; `front`: names of those that nothing beats in both."""
    picture = Picture(860, 480, title)
    xs = [x for x, _, _ in points.values()]
    ys = [y + s * (0 if math.isnan(half) else half)
          for _, y, half in points.values() for s in (-1, 1)]
    x, y = Axis(*widened(xs, 0.12), 70, 844), Axis(*widened(ys), 424, 14)
    picture.axes(x, y, x_name, y_name)
    places = {name: (x.at(a), y.at(b)) for name, (a, b, _) in points.items()}
    if len(front) > 1:
        picture.path([places[name] for name in front],
                     'fill="none" stroke="#D55E00" stroke-width="1.5" stroke-dasharray="5 4"')
    taken = [(a - 5, b - 5, a + 5, b + 5) for a, b in places.values()]
    for name, (a, b, half) in points.items():
        colour = "#D55E00" if name in front else "#0072B2"
        if not math.isnan(half):
            picture.line(x.at(a), y.at(b - half), x.at(a), y.at(b + half),
                         f'stroke="{colour}" stroke-opacity="0.35" stroke-width="1.5"')
        picture.dot(*places[name], colour)
    for name in points:
        box = free_place(taken, *places[name], text_width(name))
        taken.append(box)
        picture.text(box[0], box[3] - 3, name,
                     style='paint-order="stroke" stroke="#fff" stroke-width="4"')
    return picture.svg()
