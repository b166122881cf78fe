// The page's figures: each is made once, and gets other data where the choice changes.
"use strict";

const LETTERS = "13px";
const MOVE_MS = 450;  // in which a dot goes to its new place
const reduced = matchMedia("(prefers-reduced-motion: reduce)");

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// Six colours that are told apart with any colour vision (Okabe and Ito), and grey for what is small.
const SERIES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#8A8F98"];

class Chart {
  constructor(id, options) {
    this.element = document.getElementById(id);
    const plotting = Bokeh.Plotting;
    const { tips, ...rest } = options;
    this.plot = plotting.figure({ sizing_mode: "stretch_width", toolbar_location: null, min_border_right: 12,
      tools: tips ? [new Bokeh.HoverTool({ tooltips: tips, mode: "mouse" })] : [], output_backend: "canvas", ...rest });
    this.sources = {};
    this.frames = {};  // what moves now
    this.painted = [];  // [object, property, name of the colour]
    this.axes = [...this.plot.left, ...this.plot.below];
    for (const axis of this.axes) {
      axis.major_label_text_font_size = axis.axis_label_text_font_size = LETTERS;
      axis.axis_label_text_font_style = "normal";
      axis.minor_tick_line_color = null;
      for (const part of ["axis_label_text", "major_label_text"]) this.painted.push([axis, `${part}_color`, "ink"]);
      for (const part of ["axis_line", "major_tick_line"]) this.painted.push([axis, `${part}_color`, "line"]);
    }
    this.plot.outline_line_color = null;
    this.painted.push([this.plot, "background_fill_color", "card"], [this.plot, "border_fill_color", "card"]);
    for (const grid of this.plot.center) this.painted.push([grid, "grid_line_color", "line"]);
  }

  source(name, columns) {
    const data = Object.fromEntries(columns.map((column) => [column, []]));
    return this.sources[name] = new Bokeh.ColumnDataSource({ data });
  }

  paint() {
    for (const [object, property, name] of this.painted) object[property] = colour(name);
  }

  // Of categories; setting them anew, or the height, lays the whole figure out again.
  rows(range, factors, height) {
    const wanted = factors.length ? factors : ["-"];
    if (String(wanted) !== String(range.factors)) range.factors = wanted;
    if (height && height !== this.plot.height) this.plot.height = height;
  }

  // Rows of one source: [{x: 1, y: 2}, ...]. Without rows the columns stay, empty.
  set(name, rows) {
    const source = this.sources[name];
    const columns = Object.keys(source.data);
    source.data = Object.fromEntries(columns.map((column) => [column, rows.map((row) => row[column])]));
  }

  // Moves the rows from where they are now to their new x and y, in log space.
  move(name, rows) {
    const source = this.sources[name];
    const before = new Map((source.data.key || []).map((key, at) => [key, [source.data.x[at], source.data.y[at]]]));
    cancelAnimationFrame(this.frames[name]);
    if (reduced.matches || !rows.some((row) => before.has(row.key))) return this.set(name, rows);
    const begin = performance.now();
    const mixed = (from, to, share) => Math.exp(Math.log(from) + (Math.log(to) - Math.log(from)) * share);
    const step = (now) => {
      const share = Math.min(1, Math.max(0, (now - begin) / MOVE_MS));
      this.set(name, rows.map((row) => {
        const [x, y] = before.get(row.key) ?? [row.x, row.y];
        return { ...row, x: mixed(x, row.x, share), y: mixed(y, row.y, share) };
      }));
      if (share < 1) this.frames[name] = requestAnimationFrame(step);
    };
    step(begin);
    return undefined;
  }

  async show() {
    this.paint();
    await Bokeh.Plotting.show(this.plot, this.element);
  }

  // What it shows in words, for readers that see no picture; without rows the figure gives way to its note.
  told(text, some) {
    this.element.setAttribute("aria-label", text);
    this.element.classList.toggle("empty", !some);
  }
}

function limits(values, least = 1.6) {
  const low = Math.min(...values), high = Math.max(...values);
  const middle = Math.sqrt(low * high), reach = Math.max(least, Math.sqrt(high / low) * 1.35);
  return [middle / reach, middle * reach];
}

function within(range, values, least) {
  const [start, end] = limits(values, least);
  range.setv({ start, end, reset_start: start, reset_end: end });
}

const compact = () => new Bokeh.NumeralTickFormatter({ format: "0,0.[0000]" });

class TimesChart extends Chart {
  constructor() {
    super("times", { height: 260, x_axis_type: "log", x_range: new Bokeh.Range1d({ start: 1, end: 10 }),
      y_range: new Bokeh.FactorRange({ factors: ["-"] }), tips: [["", "@name, @scope: @text"]] });
    const columns = ["x", "y", "low", "high", "name", "scope", "text"];
    for (const who of ["base", "rung"]) {
      const source = this.source(who, columns);
      const lines = this.plot.segment({ x0: { field: "low" }, x1: { field: "high" }, y0: { field: "y" },
        y1: { field: "y" }, source, line_width: 4 });
      const dots = this.plot.scatter({ x: { field: "x" }, y: { field: "y" }, source, size: 11,
        marker: who === "base" ? "square" : "circle" });
      for (const [of, part] of [[lines, "line"], [dots, "fill"], [dots, "line"]]) {
        this.painted.push([of.glyph, `${part}_color`, who]);
      }
    }
    this.plot.below[0].axis_label = "milliseconds (log scale)";
    this.plot.below[0].formatter = compact();
  }

  update(scopes, rows) {
    this.rows(this.plot.y_range, [...scopes].reverse(), 80 + 44 * Math.max(1, scopes.length));
    for (const who of ["base", "rung"]) {
      const shift = who === "base" ? 0.16 : -0.16;
      this.set(who, rows[who].map((row) => ({ ...row, y: [row.scope, shift] })));
    }
    const all = [...rows.base, ...rows.rung];
    if (all.length) within(this.plot.x_range, all.flatMap((row) => [row.low, row.high]));
  }
}

class StallsChart extends Chart {
  constructor() {
    super("stalls", { height: 190, x_range: new Bokeh.Range1d({ start: 0, end: 100 }),
      y_range: new Bokeh.FactorRange({ factors: ["-"] }), tips: [["", "@reason: @share{0.0} %"]] });
    const source = this.source("shares", ["y", "left", "right", "reason", "share", "colour"]);
    this.plot.hbar({ y: { field: "y" }, left: { field: "left" }, right: { field: "right" }, height: 0.7,
      fill_color: { field: "colour" }, line_color: null, source });
    this.plot.below[0].axis_label = "percent of the waiting time";
    this.plot.center.forEach((grid) => { if (grid.dimension === 1) grid.visible = false; });
  }

  update(bars) {
    this.rows(this.plot.y_range, bars.map((bar) => bar.name).reverse(), 80 + 50 * Math.max(1, bars.length));
    const totals = {};
    for (const bar of bars) for (const [reason, share] of bar.stalls) totals[reason] = (totals[reason] ?? 0) + share;
    const named = Object.keys(totals).sort((a, b) => totals[b] - totals[a]).slice(0, SERIES.length - 1);
    const rows = [];
    for (const bar of bars) {
      let left = 0;
      const known = Object.fromEntries(bar.stalls);
      const parts = named.filter((reason) => reason in known).map((reason) => [reason, known[reason]]);
      const rest = bar.stalls.reduce((sum, [reason, share]) => sum + (named.includes(reason) ? 0 : share), 0);
      if (rest > 0) parts.push(["others", rest]);
      for (const [reason, share] of parts) {
        const at = named.indexOf(reason);
        rows.push({ y: bar.name, left, right: left + 100 * share, reason,
          share: 100 * share, colour: SERIES[at < 0 ? SERIES.length - 1 : at] });
        left += 100 * share;
      }
    }
    this.set("shares", rows);
    return named.map((reason, at) => [reason, SERIES[at]]);
  }
}

class RooflineChart extends Chart {
  constructor() {
    super("roofline", { height: 380, x_axis_type: "log", y_axis_type: "log", tips: [["", "@name: @text"]],
      x_range: new Bokeh.Range1d({ start: 0.1, end: 1000 }), y_range: new Bokeh.Range1d({ start: 100, end: 1e6 }) });
    const others = this.source("others", ["x", "y", "name", "text"]);
    const small = this.plot.scatter({ x: { field: "x" }, y: { field: "y" }, source: others, size: 6 });
    const roofs = this.source("roofs", ["xs", "ys", "dash"]);
    const lines = this.plot.multi_line({ xs: { field: "xs" }, ys: { field: "ys" }, source: roofs, line_width: 2.5,
      line_dash: { field: "dash" } });
    const names = this.source("names", ["x", "y", "text", "align"]);
    const words = this.plot.text({ x: { field: "x" }, y: { field: "y" }, text: { field: "text" }, source: names,
      text_align: { field: "align" }, text_baseline: "bottom", text_font_size: LETTERS, y_offset: -3 });
    const arrow = this.source("way", ["x0", "y0", "x1", "y1"]);
    const way = this.plot.segment({ x0: { field: "x0" }, y0: { field: "y0" }, x1: { field: "x1" },
      y1: { field: "y1" }, source: arrow, line_width: 2, line_dash: "dotted" });
    this.painted.push([small.glyph, "fill_color", "line"], [small.glyph, "line_color", "quiet"],
      [lines.glyph, "line_color", "ink"], [words.glyph, "text_color", "ink"], [way.glyph, "line_color", "quiet"]);
    for (const who of ["base", "rung"]) {
      const source = this.source(who, ["x", "y", "name", "text", "key"]);
      const dot = this.plot.scatter({ x: { field: "x" }, y: { field: "y" }, source, size: 16,
        marker: who === "base" ? "square" : "circle" });
      this.painted.push([dot.glyph, "fill_color", who], [dot.glyph, "line_color", "card"]);
    }
    this.plot.below[0].axis_label = "operations per counted byte";
    this.plot.left[0].axis_label = "GFLOP/s (log scale)";
    this.plot.left[0].formatter = this.plot.below[0].formatter = compact();
  }

  update(dots, others, roofs, reading) {
    const all = [...dots, ...others];
    if (all.length) {
      const xs = all.map((dot) => dot.x), ridge = roofs.map((roof) => roof.gflops / reading);
      within(this.plot.x_range, [...xs, ...ridge.map((x) => 4 * x), 1]);
      within(this.plot.y_range, [...all.map((dot) => dot.y), ...roofs.map((roof) => 1.6 * roof.gflops)]);
    }
    const { start, end } = this.plot.x_range;
    this.set("roofs", roofs.map((roof) => ({ dash: roof.other ? [6, 4] : [],
      xs: [start, Math.min(end, roof.gflops / reading), end],
      ys: [start * reading, Math.min(roof.gflops, end * reading), Math.min(roof.gflops, end * reading)] })));
    const highest = roofs.length - 1;  // dots may lie at the right end of a lower one
    this.set("names", roofs.map((roof, place) => (place < highest
      ? { x: 1.5 * roof.gflops / reading, y: roof.gflops, text: roof.name, align: "left" }
      : { x: end / 1.05, y: roof.gflops, text: roof.name, align: "right" })));
    this.set("others", others);
    this.set("way", dots.length === 2 ? [{ x0: dots[0].x, y0: dots[0].y, x1: dots[1].x, y1: dots[1].y }] : []);
    for (const who of ["base", "rung"]) {
      this.move(who, dots.filter((dot) => dot.key === who));
    }
  }
}

class ChainChart extends Chart {
  constructor() {
    super("chain", { height: 350, y_axis_type: "log", x_range: new Bokeh.FactorRange({ factors: ["-"] }),
      y_range: new Bokeh.Range1d({ start: 1, end: 10 }), tips: [["", "@x: @text"]] });
    const source = this.source("rungs", ["x", "y", "text", "size", "colour"]);
    const line = this.plot.line({ x: { field: "x" }, y: { field: "y" }, source, line_width: 2 });
    this.plot.scatter({ x: { field: "x" }, y: { field: "y" }, source, size: { field: "size" },
      fill_color: { field: "colour" }, line_color: { field: "colour" } });
    this.painted.push([line.glyph, "line_color", "quiet"]);
    this.plot.below[0].major_label_orientation = 1.1;
    this.plot.left[0].axis_label = "milliseconds (log scale)";
    this.plot.left[0].formatter = compact();
    this.plot.center.forEach((grid) => { if (grid.dimension === 0) grid.visible = false; });
  }

  update(rows) {
    this.rows(this.plot.x_range, rows.map((row) => row.x));
    this.set("rungs", rows.map((row) => ({ ...row, size: row.who ? 15 : 8, colour: colour(row.who || "quiet") })));
    if (rows.length) within(this.plot.y_range, rows.map((row) => row.y));
  }
}

class FloorsChart extends Chart {
  constructor() {
    super("floors", { height: 260, x_axis_type: "log", x_range: new Bokeh.Range1d({ start: 1, end: 10 }),
      y_range: new Bokeh.FactorRange({ factors: ["-"] }), tips: [["", "@y: @text"]] });
    const source = this.source("bars", ["y", "x", "left", "text", "colour"]);
    this.plot.hbar({ y: { field: "y" }, left: { field: "left" }, right: { field: "x" }, height: 0.6, source,
      fill_color: { field: "colour" }, line_color: null });
    this.plot.below[0].axis_label = "milliseconds (log scale)";
    this.plot.below[0].formatter = compact();
    this.plot.center.forEach((grid) => { if (grid.dimension === 1) grid.visible = false; });
  }

  update(rows) {
    this.rows(this.plot.y_range, rows.map((row) => row.y).reverse(), 80 + 42 * Math.max(1, rows.length));
    const values = rows.map((row) => row.x);
    const left = rows.length ? Math.min(...values) / 4 : 1;
    if (rows.length) {
      this.plot.x_range.setv({ start: left, end: Math.max(...values) * 1.4 });
    }
    this.set("bars", rows.map((row) => ({ ...row, left, colour: colour(row.who) })));
  }
}
