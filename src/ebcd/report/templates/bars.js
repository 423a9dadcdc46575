// Components as sorted bars with intervals.

const ROW = 21;

function largestFirst(k) {
  const loadings = data.loadings[k];
  return Uint32Array.from(loadings.keys()).sort(
    (a, b) => Math.abs(loadings[b]) - Math.abs(loadings[a]) || a - b,
  );
}

const ranks = []; // order of the features of each component, made when first needed
const ranked = (k) => (ranks[k] ||= largestFirst(k));

const BAR_ORDERS = {
  size: () => () => 0, // they come by size
  value: (k) => (a, b) => data.loadings[k][b] - data.loadings[k][a],
  name: () => (a, b) => data.names[a].localeCompare(data.names[b]),
  data: () => (a, b) => a - b,
};

// How many: a number, or those that carry most of the component, as far as there is room.
const CUT = 20;
function barCount(k) {
  const wanted = byId("bar-count").value;
  return wanted === "cut" ? Math.min(header.carriers[k] || 10, CUT) : Number(wanted);
}

function carried(k) {
  const squares = data.loadings[k].map((value) => value * value);
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const largest = Array.from(ranked(k).subarray(0, header.carriers[k]), (j) => squares[j]);
  const features = header.carriers[k] === 1 ? "feature carries" : "features carry";
  return header.carriers[k]
    ? `${counted(header.carriers[k])} ${features} ${percent(sum(largest) / sum(squares), 0)}`
    : "no clear sign";
}

// Features to show: the largest, in the chosen order, and the one that was searched.
function barRows(k) {
  const shown = Array.from(ranked(k).subarray(0, barCount(k)));
  shown.sort(BAR_ORDERS[byId("bar-sort").value](k));
  const searched = state.feature;
  return searched < 0 || shown.includes(searched) ? shown : [...shown, searched];
}

function drawComponents() {
  const rows = state.picked.map(barRows);
  const ends = [0];
  state.picked.forEach((k, i) => {
    for (const j of rows[i]) {
      ends.push(data.loadings[k][j]);
      if (data.lower) ends.push(data.lower[k][j], data.upper[k][j]);
    }
  });
  const domain = span(ends, 0.03);
  const frames = state.picked.map((k) => {
    const notes = [
      `${percent(data.ratio[k])} of variance`,
      carried(k),
      ...(header.stability ? [foundAgain(k)] : []),
      ...(isWeak(k) ? ["does not stand out from noise"] : []),
    ];
    const made = figure({
      title: `Component ${k + 1}`,
      note: notes.join(", "),
      file: `component-${k + 1}`,
      named: k,
    });
    made.frame.classList.toggle("weak", isWeak(k));
    return made;
  });
  byId("bars").replaceChildren(...frames.map(({ frame }) => frame));
  arrange(byId("bars"));
  frames.forEach(({ plot }, i) => {
    const k = state.picked[i];
    if (header.ordered[k]) drawOrdered(plot, k);
    else drawBars(plot, k, rows[i], domain);
  });
}

// Loadings of features in an order, as a curve with a band.
function drawOrdered(plot, k) {
  const values = data.loadings[k];
  const count = values.length;
  const width = widthOf(plot);
  const [left, right, bottom, height] = [48, width - 8, 230, 262];
  const [low, high] = span([0, ...values, ...(data.lower ? [...data.lower[k], ...data.upper[k]] : [])]);
  const [x, y] = [scale(0, Math.max(count - 1, 1), left, right), scale(low, high, bottom, 8)];
  const words = `Loadings of ${called(k)} in the order of the features`;
  const chart = canvas(width, height, `${words}. Arrow keys move along the curve.`);
  axisUp(chart, y, ticks(low, high, 5), left, right);
  const marks = ticks(0, count - 1, (right - left) / 90).filter(Number.isInteger);
  for (const j of marks)
    chart.append(label(x(j), height - 8, shorten(data.names[j], 80), "middle"));
  if (data.lower) {
    const there = path(count, x, (j) => y(data.upper[k][j]));
    const back = path(count, (i) => x(count - 1 - i), (i) => y(data.lower[k][count - 1 - i]));
    chart.append(svg("path", { class: "band", d: `${there}${back.replace("M", "L")}Z` }));
  }
  if (state.feature >= 0)
    chart.append(line("cursor-line", x(state.feature), 8, x(state.feature), bottom));
  chart.append(curve("curve", count, x, (j) => y(values[j])));
  plot.replaceChildren(chart);
  const place = (j) => [x(j), y(values[j])];
  explore(chart, {
    count,
    text: (j) => [data.names[j], ...loadingLines(k, j)],
    place,
    nearest: (px) => clamp(Math.round(scale(left, right, 0, count - 1)(px)), 0, count - 1),
    cursor: circleCursor(chart, place),
    choose: (j) => change({ feature: j }),
  });
}

function drawBars(plot, k, rows, [low, high]) {
  const count = rows.length;
  const width = widthOf(plot);
  const apart = count > barCount(k); // the searched one is last, after a gap
  const height = (apart ? count + 1 : count) * ROW + 30;
  const widest = Math.max(...rows.map((j) => textWidth(data.names[j])), 20);
  const left = Math.min(widest + 10, 0.54 * width);
  const x = scale(low, high, left + 4, width - 6);
  const top = (i) => (apart && i === count - 1 ? i + 1 : i) * ROW;
  const words = `Loadings of ${called(k)}: ${barWords(k, rows)} and others`;
  const chart = canvas(width, height, `${words}. Arrow keys move through them.`);
  axisAcross(chart, x, ticks(low, high, (width - left) / 45), 0, height - 29);
  const cursor = bandCursor(chart, width, ROW, (i) => [0, top(i)]);
  rows.forEach((j, i) => chart.append(...barRow(k, j, top(i), left, width, x)));
  if (apart) {
    const rank = counted(ranked(k).indexOf(state.feature) + 1);
    chart.append(label(left - 6, top(count - 1) - 4, `rank ${rank}:`, "end"));
  }
  plot.replaceChildren(chart);
  explore(chart, {
    count,
    text: (i) => [data.names[rows[i]], ...loadingLines(k, rows[i])],
    place: (i) => [Math.max(x(data.loadings[k][rows[i]]), left), top(i)],
    nearest: (_, y) => clamp(Math.floor(y / ROW), 0, count - 1),
    cursor,
    choose: (i) => change({ feature: rows[i] }),
  });
}

const barWords = (k, rows) =>
  rows
    .slice(0, 3)
    .map((j) => `${data.names[j]} ${format(data.loadings[k][j], 3)}`)
    .join(", ");

function barRow(k, j, top, left, width, x) {
  const value = data.loadings[k][j];
  const kind = !hasClearSign(k, j) ? "unclear" : value < 0 ? "negative" : "positive";
  const middle = top + ROW / 2;
  const size = Math.max(Math.abs(x(value) - x(0)), 0.5);
  const parts = [
    label(left - 6, middle + 4, shorten(data.names[j], left - 10), "end", "name"),
    rect(kind, Math.min(x(0), x(value)), top + 4, size, ROW - 8, 1.5),
  ];
  if (j === state.feature) parts.unshift(rect("highlight", 0, top, width, ROW, 3));
  if (data.lower) {
    const ends = [x(data.lower[k][j]), middle, x(data.upper[k][j]), middle];
    parts.push(line("halo", ...ends), line("interval", ...ends));
  }
  return parts;
}

function drawBarLegend() {
  const swatch = (kind) => html("i", { class: `swatch ${kind}`, "aria-hidden": "true" });
  const entries = [
    ["positive", "positive"],
    ["negative", "negative"],
    ["unclear", data.lfsr ? `no clear sign (lfsr > ${state.level})` : "zero"],
    ...(data.lower ? [["stroke", header.interval + header.about]] : []),
  ];
  byId("bar-legend").replaceChildren(
    ...entries.map(([kind, text]) => html("span", {}, swatch(kind), text)),
  );
}

function setUpBars() {
  for (const id of ["bar-count", "bar-sort"]) byId(id).addEventListener("change", drawComponents);
  addChart(drawBarLegend, "level");
  addChart(drawComponents, "picked", "level", "feature", "names");
}
