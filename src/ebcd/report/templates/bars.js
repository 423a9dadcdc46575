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

// Features to show: the largest, in the chosen order, and the one that was searched.
function barRows(k) {
  const shown = Array.from(ranked(k).subarray(0, Number(byId("bar-count").value)));
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
    const clear = data.loadings[k].reduce((sum, _, j) => sum + hasClearSign(k, j), 0);
    const what = data.lfsr ? "clear signs" : "not zero";
    const weak = isWeak(k) ? "; does not stand out from noise" : "";
    const made = figure({
      title: `Component ${k}`,
      note: `${percent(data.ratio[k])} of variance, ${what}: ${counted(clear)}${weak}`,
      file: `component-${k}`,
    });
    made.frame.classList.toggle("weak", isWeak(k));
    return made;
  });
  byId("bars").replaceChildren(...frames.map(({ frame }) => frame));
  frames.forEach(({ plot }, i) => drawBars(plot, state.picked[i], rows[i], domain));
}

function drawBars(plot, k, rows, [low, high]) {
  const count = rows.length;
  const width = Math.max(plot.clientWidth, 240);
  const apart = count > Number(byId("bar-count").value); // the searched one is last, after a gap
  const height = (apart ? count + 1 : count) * ROW + 30;
  const widest = Math.max(...rows.map((j) => textWidth(data.names[j])), 20);
  const left = Math.min(widest + 10, 0.54 * width);
  const x = scale(low, high, left + 4, width - 6);
  const top = (i) => (apart && i === count - 1 ? i + 1 : i) * ROW;
  const words = `Loadings of component ${k}: ${barWords(k, rows)} and others`;
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
  if (header.features.shown <= 10) byId("bar-count").parentElement.hidden = true;
  addChart(drawBarLegend, "level");
  addChart(drawComponents, "picked", "level", "feature");
}
