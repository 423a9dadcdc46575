// Explained variance, fitted priors and the path of the fit.

function drawVariance() {
  const names = data.pca ? `${header.method} (filled) and PCA (outlined)` : header.method;
  const { frame, plot } = figure({
    title: "Share of the variance",
    note: names,
    file: "explained-variance",
  });
  byId("variance-chart").replaceChildren(frame);
  const count = header.components;
  const width = Math.max(plot.clientWidth, 240);
  const height = 240;
  const [left, bottom] = [50, height - 26];
  const most = Math.max(...data.ratio, ...(data.pca || []).slice(0, count), 1e-9) * 1.05;
  const y = scale(0, 100 * most, bottom, 8);
  const step = (width - left - 8) / count;
  const bar = Math.min(step * 0.36, 44);
  const middle = (k) => left + (k + 0.5) * step;
  const chart = canvas(
    width,
    height,
    `Explained variance: ${range(count)
      .map((k) => `component ${k} ${percent(data.ratio[k])}`)
      .join(", ")}`,
  );
  const cursor = svg("rect", {
    class: "row-cursor",
    y: 8,
    width: step,
    height: bottom - 8,
    visibility: "hidden",
  });
  for (const mark of ticks(0, 100 * most, 5)) {
    chart.append(
      svg("line", {
        class: mark === 0 ? "axis" : "grid-line",
        x1: left,
        x2: width - 8,
        y1: y(mark),
        y2: y(mark),
      }),
    );
    bottomLabel(chart, left - 7, y(mark) + 4, `${format(mark, 4)}%`, "end");
  }
  chart.append(cursor);
  for (let k = 0; k < count; k++) {
    const top = y(100 * data.ratio[k]);
    chart.append(
      svg("rect", {
        class: "positive",
        x: middle(k) - (data.pca ? bar + 1.5 : bar / 2),
        y: top,
        width: bar,
        height: bottom - top,
        rx: 1.5,
      }),
    );
    if (data.pca && k < data.pca.length) {
      const other = y(100 * data.pca[k]);
      chart.append(
        svg("rect", {
          class: "pca",
          x: middle(k) + 1.5,
          y: other,
          width: bar,
          height: bottom - other,
          rx: 1.5,
        }),
      );
    }
    if (step > 24 || k % Math.ceil(24 / step) === 0)
      bottomLabel(chart, middle(k), height - 8, String(k));
  }
  plot.replaceChildren(chart);
  explore(chart, {
    count,
    text: (k) => [
      `component ${k}`,
      `${header.method} ${percent(data.ratio[k])}, in total ${upTo(data.ratio, k)}`,
      ...(data.pca && k < data.pca.length
        ? [`PCA ${percent(data.pca[k])}, in total ${upTo(data.pca, k)}`]
        : []),
    ],
    place: (k) => [middle(k), y(100 * data.ratio[k])],
    nearest: (x) => Math.min(Math.max(Math.floor((x - left) / step), 0), count - 1),
    cursor: (k) =>
      fill(
        cursor,
        { x: k < 0 ? 0 : left + k * step, visibility: k < 0 ? "hidden" : "visible" },
        [],
      ),
  });
}

const upTo = (shares, k) => percent(shares.subarray(0, k + 1).reduce((a, b) => a + b, 0));

function fillVarianceTable() {
  const methods = [[header.method, data.ratio], ...(data.pca ? [["PCA", data.pca]] : [])];
  const heads = ["component", ...methods.flatMap(([name]) => [name, "in total"])];
  const cells = (k) =>
    methods.flatMap(([, shares]) =>
      k < shares.length ? [percent(shares[k]), upTo(shares, k)] : ["", ""],
    );
  const rows = range(header.components).map((k) =>
    html(
      "tr",
      {},
      html("th", { scope: "row" }, String(k)),
      ...cells(k).map((text) => html("td", {}, text)),
    ),
  );
  byId("variance-table").replaceChildren(
    html(
      "table",
      { class: "settings" },
      html("thead", {}, html("tr", {}, ...heads.map((text) => html("th", { scope: "col" }, text)))),
      html("tbody", {}, ...rows),
    ),
  );
}

function drawPriors() {
  const frames = state.picked.map((k) =>
    figure({ title: `Component ${k}`, note: header.priors[k], file: `prior-${k}` }),
  );
  byId("prior-charts").replaceChildren(...frames.map(({ frame }) => frame));
  frames.forEach(({ plot }, i) => drawPrior(plot, state.picked[i]));
}

function drawPrior(plot, k) {
  const [estimate, shrunk, density] = [data.estimate[k], data.shrunk[k], data.density[k]];
  const count = estimate.length;
  const width = Math.max(plot.clientWidth, 240);
  const [left, right, bottom, foot, height] = [48, width - 8, 200, 262, 300];
  const reach = estimate[count - 1];
  const x = scale(-reach, reach, left, right);
  const y = scale(-reach, reach, bottom, 8);
  const chart = canvas(
    width,
    height,
    `Shrinkage by the prior of component ${k}: ${header.priors[k]}. Arrow keys move along the curve.`,
  );
  for (const mark of ticks(-reach, reach, (right - left) / 70)) {
    chart.append(
      svg("line", {
        class: mark === 0 ? "axis" : "grid-line",
        x1: x(mark),
        x2: x(mark),
        y1: 8,
        y2: foot,
      }),
    );
    bottomLabel(chart, x(mark), foot + 17, format(mark, 6));
  }
  verticalAxis(chart, y, ticks(-reach, reach, 5), left, right);
  bottomLabel(chart, right, height - 2, "estimated loading", "end");
  chart.append(svg("text", { x: left + 6, y: 18 }, "after shrinkage"));
  chart.append(
    svg("line", { class: "identity", x1: x(-reach), y1: y(-reach), x2: x(reach), y2: y(reach) }),
  );
  if (Number.isFinite(density[0])) {
    const z = scale(0, densityTop(density), foot, bottom + 12);
    const inside = (i) => Math.max(z(density[i]), bottom + 12); // a point mass is cut off
    chart.append(
      svg("path", {
        class: "area",
        d: `${path(count, (i) => x(estimate[i]), inside)}L${right} ${foot}L${left} ${foot}Z`,
      }),
    );
    chart.append(svg("text", { x: left + 6, y: bottom + 22 }, "prior"));
  }
  const cursor = svg("circle", { class: "cursor", r: 4, visibility: "hidden" });
  chart.append(
    svg("path", {
      class: "curve",
      d: path(
        count,
        (i) => x(estimate[i]),
        (i) => y(shrunk[i]),
      ),
    }),
    cursor,
  );
  plot.replaceChildren(chart);
  explore(chart, {
    count,
    text: (i) => [`estimated ${format(estimate[i], 3)}`, `after shrinkage ${format(shrunk[i], 3)}`],
    place: (i) => [x(estimate[i]), y(shrunk[i])],
    nearest: (px) =>
      Math.min(Math.max(Math.round(((px - left) / (right - left)) * (count - 1)), 0), count - 1),
    cursor: (i) =>
      fill(
        cursor,
        i < 0
          ? { visibility: "hidden" }
          : { visibility: "visible", cx: x(estimate[i]), cy: y(shrunk[i]) },
        [],
      ),
  });
}

// A point mass would flatten the rest: the axis ends a little above the density beside the peak.
function densityTop(density) {
  const sorted = Float64Array.from(density).sort();
  const most = sorted[sorted.length - 1];
  const rest = sorted[Math.floor(sorted.length * 0.93)];
  return rest > 0 ? Math.min(most, 1.6 * rest) : most;
}

function drawTrace() {
  const end = format(header.pathEnd, 7);
  const { frame, plot } = figure({
    title: `${header.pathName} after each iteration`,
    note: `less its end, ${end}`,
    file: "fit",
  });
  byId("trace").replaceChildren(frame);
  const values = data.path;
  const count = values.length;
  const width = Math.max(plot.clientWidth, 240);
  const height = 230;
  const [low, high] = span(values);
  const marks = ticks(low, high, 4);
  const words = marks.map((mark) => format(mark, 6));
  const [left, right, bottom] = [
    Math.max(...words.map((word) => textWidth(word))) + 14,
    width - 8,
    height - 40,
  ];
  const [x, y] = [scale(0, Math.max(count - 1, 1), left, right), scale(low, high, bottom, 8)];
  const chart = canvas(width, height, `${header.pathName} after each iteration, at last ${end}.`);
  marks.forEach((mark, i) => {
    chart.append(
      svg("line", { class: "grid-line", x1: left, x2: right, y1: y(mark), y2: y(mark) }),
    );
    bottomLabel(chart, left - 7, y(mark) + 4, words[i], "end");
  });
  for (const mark of ticks(0, Math.max(count - 1, 1), (right - left) / 60).filter(Number.isInteger))
    bottomLabel(chart, x(mark), bottom + 17, String(mark));
  bottomLabel(chart, right, height - 3, "iteration", "end");
  const cursor = svg("circle", { class: "cursor", r: 4, visibility: "hidden" });
  chart.append(svg("path", { class: "curve", d: path(count, x, (i) => y(values[i])) }));
  if (count < 60)
    values.forEach((value, i) =>
      chart.append(svg("circle", { class: "positive", cx: x(i), cy: y(value), r: 2.5 })),
    );
  chart.append(cursor);
  plot.replaceChildren(chart);
  explore(chart, {
    count,
    text: (i) => [
      `iteration ${i}`,
      `${header.pathName} ${format(header.pathEnd + values[i], 9)}`,
      `${format(values[i], 3)} from its end`,
    ],
    place: (i) => [x(i), y(values[i])],
    nearest: (px) =>
      Math.min(
        Math.max(Math.round(((px - left) / (right - left)) * Math.max(count - 1, 1)), 0),
        count - 1,
      ),
    cursor: (i) =>
      fill(
        cursor,
        i < 0 ? { visibility: "hidden" } : { visibility: "visible", cx: x(i), cy: y(values[i]) },
        [],
      ),
  });
}
