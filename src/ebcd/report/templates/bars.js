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
      const spread = data.sd ? 2 * data.sd[k][j] : 0;
      ends.push(data.loadings[k][j] - spread, data.loadings[k][j] + spread);
    }
  });
  const domain = span(ends, 0.03);
  const frames = state.picked.map((k) => {
    const sure = data.loadings[k].reduce((sum, _, j) => sum + isSure(k, j), 0);
    const what = data.lfsr ? "sure" : "not zero";
    return figure({
      title: `Component ${k}`,
      note: `${percent(data.ratio[k])} of variance, ${counted(sure)} ${what}`,
      file: `component-${k}`,
    });
  });
  byId("bars").replaceChildren(...frames.map(({ frame }) => frame));
  frames.forEach(({ plot }, i) => drawBars(plot, state.picked[i], rows[i], domain));
}

function drawBars(plot, k, rows, [low, high]) {
  const width = Math.max(plot.clientWidth, 240);
  const apart = rows.length > Number(byId("bar-count").value); // the searched one comes last, after a gap
  const height = rows.length * ROW + (apart ? ROW : 0) + 30;
  const widest = Math.max(...rows.map((j) => textWidth(data.names[j])), 20);
  const left = Math.min(widest + 10, 0.54 * width);
  const x = scale(low, high, left + 4, width - 6);
  const top = (i) => i * ROW + (apart && i === rows.length - 1 ? ROW : 0);
  const strongest = rows
    .slice(0, 3)
    .map((j) => `${data.names[j]} ${format(data.loadings[k][j], 3)}`)
    .join(", ");
  const chart = canvas(
    width,
    height,
    `Loadings of component ${k}: ${strongest} and others. Arrow keys move through them.`,
  );
  const cursor = svg("rect", {
    class: "row-cursor",
    x: 0,
    width,
    height: ROW,
    visibility: "hidden",
  });
  for (const mark of ticks(low, high, (width - left) / 45)) {
    chart.append(
      svg("line", {
        class: mark === 0 ? "axis" : "grid-line",
        x1: x(mark),
        x2: x(mark),
        y1: 0,
        y2: height - 28,
      }),
    );
    bottomLabel(chart, x(mark), height - 12, format(mark, 6));
  }
  chart.append(cursor);
  rows.forEach((j, i) => chart.append(...barRow(k, j, top(i), left, width, x)));
  if (apart)
    bottomLabel(
      chart,
      left - 6,
      top(rows.length - 1) - 4,
      `rank ${counted(ranked(k).indexOf(state.feature) + 1)}:`,
      "end",
    );
  plot.replaceChildren(chart);
  explore(chart, {
    count: rows.length,
    text: (i) => [data.names[rows[i]], ...loadingLines(k, rows[i])],
    place: (i) => [Math.max(x(data.loadings[k][rows[i]]), left), top(i)],
    nearest: (_, y) =>
      Math.min(
        Math.max(Math.floor(y / ROW) - (apart && y > (rows.length - 1) * ROW ? 1 : 0), 0),
        rows.length - 1,
      ),
    cursor: (i) =>
      fill(cursor, { y: i < 0 ? 0 : top(i), visibility: i < 0 ? "hidden" : "visible" }, []),
    choose: (i) => change({ feature: rows[i] }),
  });
}

function barRow(k, j, top, left, width, x) {
  const value = data.loadings[k][j];
  const kind = !isSure(k, j) ? "unsure" : value < 0 ? "negative" : "positive";
  const middle = top + ROW / 2;
  const [from, to] = [Math.min(x(0), x(value)), Math.max(x(0), x(value))];
  const parts = [
    svg(
      "text",
      { class: "name", x: left - 6, y: middle + 4, "text-anchor": "end" },
      shorten(data.names[j], left - 10),
    ),
    svg("rect", {
      class: kind,
      x: from,
      y: top + 4,
      width: Math.max(to - from, 0.5),
      height: ROW - 8,
      rx: 1.5,
    }),
  ];
  if (j === state.feature)
    parts.unshift(svg("rect", { class: "highlight", x: 0, y: top, width, height: ROW, rx: 3 }));
  if (data.sd) {
    const spread = 2 * data.sd[k][j];
    parts.push(
      svg("line", {
        class: "interval",
        x1: x(value - spread),
        x2: x(value + spread),
        y1: middle,
        y2: middle,
      }),
    );
  }
  return parts;
}

function drawBarLegend() {
  const swatch = (kind) => html("i", { class: `swatch ${kind}`, "aria-hidden": "true" });
  const entries = [
    ["positive", "positive"],
    ["negative", "negative"],
    ["unsure", data.lfsr ? `may be zero (lfsr > ${state.level})` : "zero"],
    ...(data.sd ? [["stroke", "two standard deviations to each side"]] : []),
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
