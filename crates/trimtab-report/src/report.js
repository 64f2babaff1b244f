// The page's script: values under the pointer, zoom, series on and off, copies of data and pictures.
// It draws from the data in the page and fetches nothing. Names in the data are only ever inserted as text.
(() => {
"use strict";

const make = (name, attributes = {}, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && typeof value !== "string") element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
};
const button = (text, title, onclick) => make("button", { type: "button", title, "aria-label": title, onclick }, text);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const quote = (text) => (/[",\n]/.test(text) ? '"' + String(text).replaceAll('"', '""') + '"' : String(text));
const csvOf = (rows) => rows.map((row) => row.map((cell) => quote(typeof cell === "string" ? cell.replaceAll("\u00a0", " ") : cell ?? "")).join(",")).join("\r\n") + "\r\n";
const fileName = (title, end) => title.replace(/[^A-Za-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) + end;

const save = (blob, name) => {
  const link = make("a", { download: name });
  link.href = URL.createObjectURL(blob);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};

// A number with three digits and a letter for thousands: 27.9k, 148 m (for seconds: 148 ms).
const short = (value) => {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const [by, letter] = size >= 1e9 ? [1e9, "G"] : size >= 1e6 ? [1e6, "M"] : size >= 1e4 ? [1e3, "k"] : [1, ""];
  if (size === 0) return "0";
  if (size < 1e-3) return value.toExponential(1);
  return String(Number((value / by).toPrecision(3))) + letter;
};
// Keeps a number and its unit on one line.
const glued = (text) => text.replace(/(\d) (?=\S)/g, "$1\u00a0");
const seconds = (value) => {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const [by, unit] = value >= 1 ? [1, "s"] : value >= 1e-3 ? [1e3, "ms"] : value >= 1e-6 ? [1e6, "µs"] : [1e9, "ns"];
  return String(Number((value * by).toPrecision(3))) + "\u00a0" + unit;
};

// ---- tables -------------------------------------------------------------------------------------------------------------------------------
for (const csv of document.querySelectorAll("button.csv")) {
  csv.addEventListener("click", () => {
    const caption = csv.parentElement;
    const table = caption.nextElementSibling.querySelector("table");
    const rows = [...table.rows].filter((row) => !row.classList.contains("groups"));
    const groups = table.querySelector("tr.groups");
    const above = groups ? [...groups.cells].flatMap((cell) => Array(cell.colSpan).fill(cell.textContent)) : [];
    const text = rows.map((row, at) => [...row.cells].map((cell, column) => (at === 0 && above[column] ? above[column] + " " : "") + cell.textContent));
    save(new Blob([csvOf(text)], { type: "text/csv" }), fileName(caption.firstChild.textContent.trim(), ".csv"));
  });
}
for (const code of document.querySelectorAll(".notes code, pre > code")) {
  code.after(" ", button("Copy", "Copy this command", () => copy(code.textContent)));
}

const said = make("p", { class: "said", role: "status", "aria-live": "polite" });
document.body.append(said);
const say = (text) => {
  said.textContent = text;
  said.classList.add("shown");
  clearTimeout(say.later);
  say.later = setTimeout(() => said.classList.remove("shown"), 1600);
};
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say("copied");
}

// ---- shared by all pictures -------------------------------------------------------------------------------------------------------------------
const pictures = [];
const redraw = () => pictures.forEach((picture) => picture.draw());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
let laidOut = 0;
addEventListener("resize", () => {
  cancelAnimationFrame(laidOut);
  laidOut = requestAnimationFrame(redraw);
});

// The buttons of a figure, for its data and its picture.
const outputs = (figure, title, rows, canvases) => {
  const picture = () => {
    const parts = canvases().filter(Boolean);
    const ratio = devicePixelRatio || 1;
    const width = parts.reduce((sum, part) => sum + part.width, 0);
    const height = Math.max(...parts.map((part) => part.height)) + 28 * ratio;
    const whole = make("canvas");
    [whole.width, whole.height] = [width, height];
    const pen = whole.getContext("2d");
    pen.fillStyle = css("--paper");
    pen.fillRect(0, 0, width, height);
    pen.fillStyle = css("--ink");
    pen.font = `600 ${14 * ratio}px system-ui, sans-serif`;
    pen.fillText(title, 8 * ratio, 18 * ratio, width - 16 * ratio);
    let left = 0;
    for (const part of parts) {
      pen.drawImage(part, left, 28 * ratio);
      left += part.width;
    }
    whole.toBlob((blob) => save(blob, fileName(title, ".png")));
  };
  return make("span", { class: "outputs" },
    button("Copy data", "Copy the data as CSV", () => copy(csvOf(rows()))),
    button("CSV", "Download the data as CSV", () => save(new Blob([csvOf(rows())], { type: "text/csv" }), fileName(title, ".csv"))),
    button("PNG", "Download this picture as PNG", picture));
};

// ---- charts with axes (uPlot) -------------------------------------------------------------------------------------------------------------------
const DASHES = [[], [8, 3], [2, 3], [10, 3, 2, 3], [5, 5], [1, 4]];
const OUTLINES = [
  null,
  [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]],
  [[0, -1.2], [1.1, 0.8], [-1.1, 0.8]],
  [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]],
  [[-0.4, -1.2], [0.4, -1.2], [0.4, -0.4], [1.2, -0.4], [1.2, 0.4], [0.4, 0.4], [0.4, 1.2], [-0.4, 1.2], [-0.4, 0.4], [-1.2, 0.4], [-1.2, -0.4], [-0.4, -0.4]],
  [[0, -1.4], [0.4, -0.5], [1.3, -0.4], [0.6, 0.2], [0.8, 1.1], [0, 0.6], [-0.8, 1.1], [-0.6, 0.2], [-1.3, -0.4], [-0.4, -0.5]],
];
const mark = (pen, look, x, y, size) => {
  pen.beginPath();
  if (!OUTLINES[look]) pen.arc(x, y, size, 0, 2 * Math.PI);
  else OUTLINES[look].forEach(([dx, dy], at) => (at ? pen.lineTo(x + dx * size, y + dy * size) : pen.moveTo(x + dx * size, y + dy * size)));
  pen.closePath();
  pen.fill();
};

const FONT = "12px system-ui, sans-serif";
const axis = (label, values, size) => ({
  label, labelFont: FONT, font: FONT, size, labelSize: 24, labelGap: 2, stroke: () => css("--soft"), values: (u, ticks) => ticks.map((tick) => (tick === null ? "" : values(tick))),
  grid: { stroke: () => css("--line"), width: 1 }, ticks: { stroke: () => css("--line"), width: 1 },
});
// A logarithmic axis with many ticks labels only the powers of ten.
const decades = (u, ticks) => {
  const powers = ticks.filter((tick) => Math.abs(Math.log10(tick) - Math.round(Math.log10(tick))) < 1e-9).length;
  return ticks.map((tick) => {
    const digit = Math.round(tick / 10 ** Math.floor(Math.log10(tick) + 1e-9));
    return powers > 2 ? (digit === 1 ? tick : null) : [1, 2, 5].includes(digit) ? tick : null;
  });
};

const upright = (label, values, log) => {
  const plain = axis(label, values, 62);
  return log ? { ...plain, filter: decades, grid: { ...plain.grid, filter: decades }, ticks: { ...plain.ticks, filter: decades } } : plain;
};

// Zoom and movement by keys and buttons, the same for every chart.
const zoomer = (plot) => {
  const range = () => [plot().scales.x.min, plot().scales.x.max];
  const whole = () => { const xs = plot().data[0]; return [xs[0], xs[xs.length - 1]]; };
  const set = (min, max) => {
    const [low, high] = whole();
    const wide = Math.min(max - min, high - low);
    const from = Math.max(low, Math.min(min, high - wide));
    if (wide > 0) plot().setScale("x", { min: from, max: from + wide });
  };
  return {
    zoom(by) { const [min, max] = range(); const middle = (min + max) / 2; const half = ((max - min) / 2) * by; set(middle - half, middle + half); },
    move(by) { const [min, max] = range(); set(min + (max - min) * by, max + (max - min) * by); },
    reset() { plot().setData(plot().data); },
  };
};

const chart = (figure, data, index) => {
  const dots = data.kind === "dots";
  const state = { log: dots || (data.log && data.series.every((s) => s.points.every(([, y]) => y === null || y > 0))), axis: 0, off: new Set(), picked: null };
  const canLog = !dots && state.log;
  const live = make("div", { class: "live" });
  const box = make("div", { class: "canvas", tabindex: "0", role: "application", "aria-label": `${data.title}. Left and right arrows show values, plus and minus zoom, 0 shows all.` });
  const readout = make("p", { class: "readout", "aria-live": "polite" });
  let plot = null;
  const keys = zoomer(() => plot);
  const named = dots ? data.dots : data.series;

  const table = () => (dots
    ? { xs: [...new Set(data.dots.map((dot) => dot.x[state.axis]).filter((x) => x !== null))].sort((a, b) => a - b) }
    : { xs: [...new Set(data.series.flatMap((s) => s.points.map((p) => p[0])))].sort((a, b) => a - b) });
  const columns = () => {
    const { xs } = table();
    const at = new Map(xs.map((x, i) => [x, i]));
    const ys = named.map((series) => {
      const column = Array(xs.length).fill(dots ? null : undefined);
      const points = dots ? [[series.x[state.axis], series.y]] : series.points;
      for (const [x, y] of points) if (x !== null) column[at.get(x)] = y;
      return column;
    });
    return [xs, ...ys];
  };

  const rows = () => (dots
    ? [["policy", data.y, ...data.axes], ...data.dots.map((dot) => [dot.name, dot.y, ...dot.x])]
    : [["series", data.x, data.y], ...data.series.flatMap((s) => s.points.map(([x, y]) => [s.name, x, y]))]);

  const show = (u) => {
    const idx = u.cursor.idx;
    if (idx === null || idx === undefined) {
      readout.textContent = dots ? "Point at a mark." : "Point at the chart, or focus it and use the arrow keys; drag to zoom.";
      return;
    }
    const x = u.data[0][idx];
    const write = (value) => (dots ? seconds(value) : short(value));
    const values = named.map((series, at) => [series, u.data[at + 1][idx], at]).filter(([, y, at]) => y !== null && y !== undefined && !state.off.has(at));
    readout.textContent = `${short(x)} ${dots ? data.axes[state.axis] : data.x}: ` + values.map(([series, y]) => `${series.name} ${write(y)}`).join(", ");
  };

  const paint = {
    draw: [(u) => {
      const pen = u.ctx;
      const ratio = devicePixelRatio || 1;
      pen.save();
      pen.font = `${12 * ratio}px system-ui, sans-serif`;
      if (dots) {
        const seen = data.dots.filter((dot, at) => !state.off.has(at) && dot.x[state.axis] !== null);
        state.names = [];
        const taken = seen.map((dot) => {
          const x = u.valToPos(dot.x[state.axis], "x", true);
          return [x - 9 * ratio, x + 9 * ratio, u.valToPos(dot.y, "y", true)];
        });
        seen.forEach((dot) => {
          const [x, y] = [u.valToPos(dot.x[state.axis], "x", true), u.valToPos(dot.y, "y", true)];
          if (x < u.bbox.left - 1 || x > u.bbox.left + u.bbox.width + 1) return;
          pen.fillStyle = css(`--look${dot.look}`);
          mark(pen, dot.look, x, y, 8 * ratio);
          pen.fillStyle = pen.strokeStyle = css("--ink");
          if (dot.chosen) {
            pen.beginPath();
            pen.arc(x, y, 14 * ratio, 0, 2 * Math.PI);
            pen.stroke();
          }
          // Places a name right, left, above or below its mark, where it covers nothing; without such a place, the list above names the mark.
          const width = pen.measureText(dot.name).width;
          const beside = dot.chosen ? 18 : 13;
          const places = [[beside * ratio, 0], [-beside * ratio - width, 0], [-width / 2, -20 * ratio], [-width / 2, 20 * ratio]];
          const free = ([left, down]) => {
            const [from, line] = [x + left, y + down];
            const inside = from >= u.bbox.left && from + width <= u.bbox.left + u.bbox.width && line >= u.bbox.top && line + 6 * ratio <= u.bbox.top + u.bbox.height;
            return inside && !taken.some(([start, end, at]) => from < end && start < from + width && Math.abs(at - line) < 14 * ratio);
          };
          const place = places.find(free);
          if (!place) return;
          const [from, line] = [x + place[0], y + place[1]];
          taken.push([from - 4 * ratio, from + width + 4 * ratio, line]);
          pen.textAlign = "left";
          pen.fillText(dot.name, from, line + 4 * ratio);
          state.names.push({ name: dot.name, left: from, right: from + width, at: line });
        });
      } else {
        data.marks.forEach((knee, row) => {
          const x = u.valToPos(knee.x, "x", true);
          if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) return;
          pen.strokeStyle = pen.fillStyle = css("--serious");
          pen.lineWidth = ratio;
          pen.setLineDash([4 * ratio, 3 * ratio]);
          pen.beginPath();
          pen.moveTo(x, u.bbox.top);
          pen.lineTo(x, u.bbox.top + u.bbox.height);
          pen.stroke();
          const left = x < u.bbox.left + u.bbox.width / 2;
          pen.textAlign = left ? "left" : "right";
          pen.fillText(knee.label, x + (left ? 5 : -5) * ratio, u.bbox.top + (13 + 15 * row) * ratio);
        });
      }
      pen.restore();
    }],
    setCursor: [show],
  };

  const draw = () => {
    const width = Math.max(260, live.clientWidth || figure.clientWidth);
    const height = Math.min(380, Math.max(240, width * 0.45));
    const values = columns();
    const zoomed = plot && plot.data[0].length === values[0].length && plot.scales.x.min > plot.data[0][0] ? [plot.scales.x.min, plot.scales.x.max] : null;
    if (plot) plot.destroy();
    const wide = values[0][values[0].length - 1] - values[0][0];
    const pad = dots ? Math.max(wide * 0.12, 0.5) : 0;
    // Labels of marks are above the lines.
    const rows = dots ? 0 : data.marks.length;
    const free = rows ? 1 / (1 - Math.min(0.5, (rows * 15 + 8) / Math.max(100, height - 74))) : 1;
    const above = (u, min, max) => {
      const [low, high] = uPlot.rangeLog(min, max, 10, true);
      return [low, rows ? low * (max / low) ** free : high];
    };
    const options = {
      width, height, legend: { show: false }, hooks: paint, padding: [12, 14, 0, 4],
      cursor: { drag: { x: true, y: false, setScale: true }, points: { size: 7 }, focus: { prox: 30 } },
      scales: {
        x: { time: false, range: dots ? (u, min, max) => (max - min > wide * 0.98 || wide === 0 ? [Math.min(0, min) - pad, max + pad * 1.6] : [min, max]) : undefined },
        y: state.log ? { distr: 3, log: 10, range: dots ? (u, min, max) => [min / 2, max * 2] : above } : { range: (u, min, max) => [Math.min(0, min ?? 0), (max ?? 1) > 0 ? max * Math.max(1.08, free) : 1] },
      },
      axes: [axis(dots ? data.axes[state.axis] : data.x, short, 34), upright(dots ? data.y.replace(/, s$/, "") : data.y, dots ? seconds : short, state.log)],
      series: [{}, ...named.map((series, at) => ({
        label: series.name, show: !state.off.has(at), stroke: () => css(`--look${series.look}`), width: 2, dash: DASHES[series.look], spanGaps: false,
        points: { show: !dots && series.points.length < 3 }, ...(dots ? { paths: () => null, points: { show: false } } : {}),
      }))],
    };
    plot = new uPlot(options, values, box);
    if (zoomed) plot.setScale("x", { min: zoomed[0], max: zoomed[1] });
    show(plot);
  };

  box.addEventListener("keydown", (event) => {
    const last = plot.data[0].length - 1;
    const at = plot.cursor.idx ?? -1;
    const go = { ArrowRight: at + 1, ArrowLeft: at < 0 ? last : at - 1, Home: 0, End: last }[event.key];
    if (go !== undefined) {
      const to = Math.max(0, Math.min(last, go));
      plot.setCursor({ left: plot.valToPos(plot.data[0][to], "x"), top: plot.bbox.height / 2 / (devicePixelRatio || 1) });
      if (plot.cursor.idx !== to) { plot.cursor.idx = to; show(plot); }
    } else if (event.key === "+" || event.key === "=") keys.zoom(0.5);
    else if (event.key === "-") keys.zoom(2);
    else if (event.key === "0" || event.key === "Escape") keys.reset();
    else return;
    event.preventDefault();
  });

  const toggles = make("span", { class: "toggles" });
  named.forEach((series, at) => {
    const swatch = make("canvas", { width: 56, height: 20, class: "swatch", "aria-hidden": "true" });
    const toggle = make("button", { type: "button", "aria-pressed": "true", title: `Show or hide ${series.name}` }, swatch, series.name);
    toggle.addEventListener("click", () => {
      state.off.has(at) ? state.off.delete(at) : state.off.add(at);
      toggle.setAttribute("aria-pressed", String(!state.off.has(at)));
      plot.setSeries(at + 1, { show: !state.off.has(at) });
    });
    const sample = () => {
      const pen = swatch.getContext("2d");
      pen.clearRect(0, 0, 56, 20);
      pen.fillStyle = pen.strokeStyle = css(`--look${series.look}`);
      if (dots) mark(pen, series.look, 28, 10, 7);
      else {
        pen.lineWidth = 4;
        pen.setLineDash(DASHES[series.look].map((n) => n * 2));
        pen.beginPath();
        pen.moveTo(0, 10);
        pen.lineTo(56, 10);
        pen.stroke();
      }
    };
    pictures.push({ draw: sample });
    sample();
    toggles.append(toggle);
  });

  const tools = make("div", { class: "tools" });
  if (canLog) {
    const scale = button("log", "Logarithmic or linear scale", () => {
      state.log = !state.log;
      scale.setAttribute("aria-pressed", String(state.log));
      draw();
    });
    scale.setAttribute("aria-pressed", "true");
    tools.append(scale);
  }
  if (dots && data.axes.length > 1) {
    const choice = make("select", { "aria-label": "Horizontal axis" });
    data.axes.forEach((name, at) => choice.append(make("option", { value: String(at) }, name)));
    choice.addEventListener("change", () => { state.axis = Number(choice.value); draw(); });
    tools.append(choice);
  }
  tools.append(
    button("+", "Zoom in", () => keys.zoom(0.5)), button("−", "Zoom out", () => keys.zoom(2)),
    button("◂", "Move left", () => keys.move(-0.25)), button("▸", "Move right", () => keys.move(0.25)), button("all", "Show all", () => keys.reset()),
    outputs(figure, data.title, rows, () => [plot.ctx.canvas]));
  live.append(tools, toggles, box, readout);
  figure.querySelector("figcaption").after(live);
  figure.classList.add("alive");
  draw();
  pictures.push({ draw });
  figure.chart = { plot: () => plot, index, names: () => state.names };
};

const source = document.getElementById("charts");
const charts = source ? JSON.parse(source.textContent) : [];
for (const figure of document.querySelectorAll("figure[data-chart]")) {
  const index = Number(figure.dataset.chart);
  const data = charts[index];
  const how = chart;
  // A figure inside a closed section has no width; it is drawn when the section opens.
  const folded = figure.closest("details:not([open])");
  if (folded) folded.addEventListener("toggle", () => { if (!figure.classList.contains("alive")) how(figure, data, index); }, { once: true });
  else how(figure, data, index);
}
document.documentElement.dataset.ready = "yes";
})();
