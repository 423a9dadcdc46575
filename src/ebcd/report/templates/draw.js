// Small helpers with which every chart is drawn.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined)
      node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null)); // texts become text, never markup
  return node;
}

const html = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);
const byId = (id) => document.getElementById(id);

function canvas(width, height, label) {
  return svg("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: "img",
    tabindex: 0,
    "aria-label": label,
  });
}

// The width of a chart; folded away it has none, and is drawn as if there were some.
const widthOf = (plot) => Math.max(plot.clientWidth || 560, 240);

// As many cards side by side as fit, but none alone in the last row.
function arrange(grid) {
  const [count, width] = [grid.children.length, grid.clientWidth || 1200];
  const most = clamp(Math.floor((width + 16) / 356), 1, 3);
  const columns = [3, 2].find((c) => c <= most && count % c !== 1) || most;
  grid.style.gridTemplateColumns = `repeat(${Math.min(columns, Math.max(count, 1))}, 1fr)`;
  for (const card of grid.children) card.style.gridColumn = "";
  if (columns > 1 && count > 1 && count % columns === 1)
    grid.lastElementChild.style.gridColumn = "1 / -1";
}

function scale(from, to, start, end) {
  const factor = (end - start) / (to - from || 1);
  return (value) => start + (value - from) * factor;
}

function ticks(from, to, count) {
  const rough = (to - from) / Math.max(count, 1);
  if (!(rough > 0)) return [from];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((nice) => nice * power >= rough * 0.999);
  const first = Math.ceil(from / step - 1e-9);
  const last = Math.floor(to / step + 1e-9);
  if (last <= first && count < 4) return ticks(from, to, count + 1); // one mark is no scale
  return range(Math.max(last - first + 1, 0)).map((i) =>
    Number(((first + i) * step).toPrecision(12)),
  );
}

function span(values, margin = 0.05) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (!(high >= low)) return [0, 1];
  const room = (high - low || Math.abs(high) || 1) * margin;
  return [low - room, high + room];
}

// Days since 1970 at which a time axis has its marks, with their labels.
function timeTicks(from, to, count) {
  const date = (day) => new Date(day * 864e5);
  const [first, last] = [date(from), date(to)];
  const rough = (to - from) / Math.max(count, 1);
  const marks = [];
  const add = (moment, length) => {
    const day = moment / 864e5;
    if (day >= from && day <= to) marks.push([day, date(day).toISOString().slice(0, length)]);
  };
  if (rough > 15) {
    const months =
      [1, 2, 3, 6, 12, 24, 60, 120, 240, 600].find((step) => step * 30.44 >= rough) || 1200;
    let month = Math.ceil((first.getUTCFullYear() * 12 + first.getUTCMonth()) / months) * months;
    const end = last.getUTCFullYear() * 12 + last.getUTCMonth();
    for (; month <= end; month += months)
      add(new Date(0).setUTCFullYear(Math.floor(month / 12), month % 12, 1), months < 12 ? 7 : 4);
    return marks;
  }
  const steps = [1 / 1440, 1 / 288, 1 / 96, 1 / 48, 1 / 24, 1 / 8, 1 / 4, 1 / 2, 1, 2, 5, 10, 20];
  const step = steps.find((days) => days >= rough) || 20;
  for (let i = Math.ceil(from / step); i * step <= to; i++) {
    const text = date(i * step).toISOString();
    marks.push([i * step, step < 1 ? text.slice(11, 16) : text.slice(0, 10)]);
  }
  return marks;
}

// A table with a row for each component.
function table(kind, heads, count, cells, rowKind = () => null) {
  const head = html("tr", {}, ...heads.map((text) => html("th", { scope: "col" }, text)));
  const rows = range(count).map((k) => {
    const numbers = cells(k).map((text) => html("td", {}, text));
    const name = called(k).replace("component ", ""); // as the column is called
    return html("tr", { class: rowKind(k) }, html("th", { scope: "row" }, name), ...numbers);
  });
  return html("table", { class: kind }, html("thead", {}, head), html("tbody", {}, ...rows));
}

const ruler = document.createElement("canvas").getContext("2d");
let family = ""; // asked for once, as it would lay out the page again
function textWidth(text, font = 12) {
  family ||= getComputedStyle(document.body).fontFamily;
  ruler.font = `${font}px ${family}`;
  return ruler.measureText(text).width;
}

function shorten(text, width, font = 12) {
  if (textWidth(text, font) <= width) return text;
  let [low, high] = [0, Math.min(text.length, 400)];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (textWidth(`${text.slice(0, middle)}…`, font) <= width) low = middle;
    else high = middle;
  }
  return `${text.slice(0, low)}…`;
}

const line = (kind, x1, y1, x2, y2) => svg("line", { class: kind, x1, y1, x2, y2 });
const rect = (kind, x, y, width, height, rx = 0) =>
  svg("rect", { class: kind, x, y, width, height, rx });
const label = (x, y, text, anchor = "start", kind = null) =>
  svg("text", { x, y, class: kind, "text-anchor": anchor }, text);
const curve = (kind, count, x, y) => svg("path", { class: kind, d: path(count, x, y) });

// Marks of the axis across: lines from top to bottom, with their values below.
function axisAcross(chart, x, marks, top, bottom) {
  let free = -Infinity; // where there is room for the next value
  for (const mark of marks) {
    const [kind, text] = [mark === 0 ? "axis" : "grid-line", format(mark, 6)];
    const half = textWidth(text) / 2;
    chart.append(line(kind, x(mark), top, x(mark), bottom));
    if (x(mark) - half < free) continue;
    chart.append(label(x(mark), bottom + 17, text, "middle"));
    free = x(mark) + half + 3;
  }
}

function axisUp(chart, y, marks, left, right, write = (mark) => format(mark, 6)) {
  for (const mark of marks) {
    const kind = mark === 0 ? "axis" : "grid-line";
    chart.append(
      line(kind, left, y(mark), right, y(mark)),
      label(left - 7, y(mark) + 4, write(mark), "end"),
    );
  }
}

function path(count, x, y) {
  const parts = [];
  let pen = "M";
  for (let i = 0; i < count; i++) {
    const [across, up] = [x(i), y(i)];
    if (!Number.isFinite(across) || !Number.isFinite(up)) {
      pen = "M";
      continue;
    }
    parts.push(`${pen}${across.toFixed(1)} ${up.toFixed(1)}`);
    pen = "L";
  }
  return parts.join("");
}
