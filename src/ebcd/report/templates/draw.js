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
    marks.push([
      i * step,
      step < 1
        ? date(i * step)
            .toISOString()
            .slice(11, 16)
        : date(i * step)
            .toISOString()
            .slice(0, 10),
    ]);
  }
  return marks;
}

const ruler = document.createElement("canvas").getContext("2d");
function textWidth(text, font = 12) {
  ruler.font = `${font}px ${getComputedStyle(document.body).fontFamily}`;
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

function verticalAxis(chart, y, marks, left, right) {
  for (const mark of marks) {
    chart.append(
      svg("line", {
        class: mark === 0 ? "axis" : "grid-line",
        x1: left,
        x2: right,
        y1: y(mark),
        y2: y(mark),
      }),
      svg("text", { x: left - 7, y: y(mark) + 4, "text-anchor": "end" }, format(mark, 6)),
    );
  }
}

function bottomLabel(chart, x, y, text, anchor = "middle") {
  chart.append(svg("text", { x, y, "text-anchor": anchor }, text));
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

// What the pointer and the keyboard show of a chart. `text(i)` gives a heading and lines, `place(i)`
// where in the chart item i is, `nearest(x, y)` the item there, `cursor(i)` moves the mark (-1: none).
function explore(chart, { count, text, place, nearest, cursor, choose }) {
  let current = -1;
  const box = () => chart.getBoundingClientRect();
  const ratio = () => box().width / chart.viewBox.baseVal.width;
  const show = (i, said) => {
    current = i;
    cursor(i);
    if (i < 0) return hideTip();
    const [x, y] = place(i);
    const frame = box();
    showTip(text(i), frame.left + x * ratio(), frame.top + y * ratio(), said);
  };
  const follow = (event) => {
    const frame = box();
    show(
      nearest((event.clientX - frame.left) / ratio(), (event.clientY - frame.top) / ratio()),
      false,
    );
  };
  chart.addEventListener("pointermove", follow);
  chart.addEventListener("pointerdown", follow);
  chart.addEventListener("pointerleave", () => show(-1));
  chart.addEventListener("blur", () => show(-1));
  chart.addEventListener("click", () => choose && current >= 0 && choose(current));
  chart.addEventListener("keydown", (event) => {
    const steps = {
      ArrowRight: 1,
      ArrowDown: 1,
      ArrowLeft: -1,
      ArrowUp: -1,
      PageDown: 10,
      PageUp: -10,
    };
    const ends = { Home: 0, End: count - 1 };
    if (event.key === "Escape") return show(-1);
    if ((event.key === "Enter" || event.key === " ") && choose && current >= 0) choose(current);
    else if (event.key in ends) show(ends[event.key], true);
    else if (event.key in steps)
      show(Math.min(Math.max(current + steps[event.key], 0), count - 1), true);
    else return undefined;
    return event.preventDefault();
  });
}

function showTip([heading, ...lines], x, y, said) {
  const tip = byId("tip");
  tip.replaceChildren(html("b", {}, heading), ...lines.map((line) => html("div", {}, line)));
  tip.hidden = false;
  const [width, height] = [tip.offsetWidth, tip.offsetHeight];
  const left = x + 14 + width > innerWidth ? Math.max(x - width - 14, 4) : x + 14;
  const top = Math.min(Math.max(y - height - 10, 4), innerHeight - height - 4);
  tip.style.left = `${left}px`;
  tip.style.top = `${top}px`;
  if (said) say([heading, ...lines].join(", "));
}

function hideTip() {
  byId("tip").hidden = true;
}

function say(text) {
  byId("live").textContent = text;
}
