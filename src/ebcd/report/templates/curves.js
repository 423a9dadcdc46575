// Explained variance, fitted priors and the path of the fit.

const upTo = (shares, k) => percent(shares.subarray(0, k + 1).reduce((a, b) => a + b, 0));

// Names and shares of our method and, if known, of PCA.
const methods = () => [[header.method, data.ratio], ...(data.pca ? [["PCA", data.pca]] : [])];

function drawVariance() {
  const note = data.pca ? `${header.method} (filled) and PCA (outlined)` : header.method;
  const made = figure({ title: "Share of the variance", note, file: "explained-variance" });
  byId("variance-chart").replaceChildren(made.frame);
  const count = header.components;
  const width = widthOf(made.plot);
  const [left, right, bottom, height] = [50, width - 8, 214, 240];
  const most =
    105 * Math.max(...methods().flatMap(([, shares]) => [...shares.slice(0, count)]), 1e-9);
  const y = scale(0, most, bottom, 8);
  const step = (right - left) / count;
  const middle = (k) => left + (k + 0.5) * step;
  const shares = range(count).map((k) => `${called(k)} ${percent(data.ratio[k])}`);
  const chart = canvas(width, height, `Explained variance: ${shares.join(", ")}`);
  axisUp(chart, y, ticks(0, most, 5), left, right, (mark) => `${format(mark, 4)}%`);
  const cursor = bandCursor(chart, step, bottom - 8, (k) => [left + k * step, 8]);
  range(count).forEach((k) => chart.append(...varianceBars(k, middle(k), step, y, bottom)));
  made.plot.replaceChildren(chart);
  explore(chart, {
    count,
    text: (k) => [called(k), ...methods().flatMap((method) => shareLine(method, k))],
    place: (k) => [middle(k), y(100 * data.ratio[k])],
    nearest: (x) => clamp(Math.floor((x - left) / step), 0, count - 1),
    cursor,
  });
}

function shareLine([name, shares], k) {
  return k < shares.length ? [`${name} ${percent(shares[k])}, in total ${upTo(shares, k)}`] : [];
}

function varianceBars(k, middle, step, y, bottom) {
  const bar = Math.min(step * 0.36, 44);
  const places = data.pca ? [middle - bar - 1.5, middle + 1.5] : [middle - bar / 2];
  const parts = places.map((x, i) => {
    const top = y(100 * (methods()[i][1][k] || 0));
    return rect(i ? "pca" : isWeak(k) ? "unclear" : "positive", x, top, bar, bottom - top, 1.5);
  });
  if (k % Math.ceil(24 / step) === 0) parts.push(label(middle, bottom + 18, shorten(brief(k), step), "middle"));
  return parts;
}

function fillVarianceTable() {
  const heads = ["component", ...methods().flatMap(([name]) => [name, "in total"])];
  if (header.stability) heads.push("found again");
  const cells = (k) => [
    ...methods().flatMap(([, shares]) =>
      k < shares.length ? [percent(shares[k]), upTo(shares, k)] : ["", ""],
    ),
    ...(header.stability ? [percent(header.stability[k], 0)] : []),
  ];
  byId("variance-table").replaceChildren(table("settings", heads, header.components, cells));
}

function drawPriors() {
  const frames = state.picked.map((k) =>
    figure({ title: titled(k), note: header.priors[k], file: `prior-${k + 1}` }),
  );
  byId("prior-charts").replaceChildren(...frames.map(({ frame }) => frame));
  arrange(byId("prior-charts"));
  frames.forEach(({ plot }, i) => drawPrior(plot, state.picked[i]));
}

function drawPrior(plot, k) {
  const [estimate, shrunk] = [data.estimate[k], data.shrunk[k]];
  const count = estimate.length;
  const width = widthOf(plot);
  const [left, right, bottom, foot, height] = [48, width - 8, 200, 262, 300];
  const reach = estimate[count - 1];
  const x = scale(-reach, reach, left, right);
  const y = scale(-reach, reach, bottom, 8);
  const words = `Shrinkage by the prior of ${called(k)}: ${header.priors[k]}`;
  const chart = canvas(width, height, `${words}. Arrow keys move along the curve.`);
  axisAcross(chart, x, ticks(-reach, reach, (right - left) / 70), 8, foot);
  axisUp(chart, y, ticks(-reach, reach, 5), left, right);
  const place = (i) => [x(estimate[i]), y(shrunk[i])];
  chart.append(
    label(right, height - 2, "estimated loading", "end"),
    label(left + 6, 18, "after shrinkage"),
    line("identity", x(-reach), y(-reach), x(reach), y(reach)),
    ...densityArea(k, x, bottom + 12, foot),
    curve(
      "curve",
      count,
      (i) => place(i)[0],
      (i) => place(i)[1],
    ),
  );
  plot.replaceChildren(chart);
  explore(chart, {
    count,
    text: (i) => [`estimated ${format(estimate[i], 3)}`, `after shrinkage ${format(shrunk[i], 3)}`],
    place,
    nearest: (px) => clamp(Math.round(scale(left, right, 0, count - 1)(px)), 0, count - 1),
    cursor: circleCursor(chart, place),
  });
}

// The prior: its density as an area, and point masses as sticks as high as they are likely.
function densityArea(k, x, top, foot) {
  const [estimate, density, atoms] = [data.estimate[k], data.density[k], header.atoms[k]];
  if (!Number.isFinite(density[0])) return [];
  const z = scale(0, Math.max(...density) || 1, foot, top + 14);
  const outline = path(
    density.length,
    (i) => x(estimate[i]),
    (i) => z(density[i]),
  );
  const [first, last] = [x(estimate[0]), x(estimate[estimate.length - 1])];
  const parts = [
    svg("path", { class: "area", d: `${outline}L${last} ${foot}L${first} ${foot}Z` }),
    label(first + 6, top + 10, "prior"),
  ];
  const most = Math.max(...atoms.map(([, weight]) => weight), 0);
  for (const [place, weight] of atoms) {
    const tip = foot - (weight / most) * (foot - top - 6);
    parts.push(line("atom", x(place), foot, x(place), tip));
    if (atoms.length > 3) continue;
    parts.push(
      svg("circle", { class: "atom", cx: x(place), cy: tip, r: 3.5 }),
      label(x(place) + 8, tip + 5, `${percent(weight)} exactly ${format(place, 3)}`, "start", "name"),
    );
  }
  return parts;
}

function drawTrace() {
  const [values, end] = [data.path, format(header.pathEnd, 7)];
  const title = `${header.pathName} after each step`;
  const made = figure({ title, note: `relative to the final value, ${end}`, file: "fit" });
  byId("trace").replaceChildren(made.frame);
  const count = values.length;
  const width = widthOf(made.plot);
  const [right, bottom, height] = [width - 8, 190, 230];
  const [low, high] = span(values);
  const marks = ticks(low, high, 4);
  const left = Math.max(...marks.map((mark) => textWidth(format(mark, 6)))) + 14;
  const last = Math.max(count - 1, 1);
  const [x, y] = [scale(0, last, left, right), scale(low, high, bottom, 8)];
  const chart = canvas(width, height, `${title}; final value ${end}.`);
  axisAcross(chart, x, ticks(0, last, (right - left) / 60).filter(Number.isInteger), 8, bottom);
  axisUp(chart, y, marks, left, right);
  const place = (i) => [x(i), y(values[i])];
  chart.append(
    label(right, height - 3, "recorded step", "end"),
    curve("curve", count, x, (i) => place(i)[1]),
  );
  if (count < 60) {
    const dot = (i) => svg("circle", { class: "positive", cx: x(i), cy: y(values[i]), r: 2.5 });
    chart.append(...range(count).map(dot));
  }
  made.plot.replaceChildren(chart);
  explore(chart, {
    count,
    text: (i) => [
      `step ${i}`,
      `${header.pathName} ${format(header.pathEnd + values[i], 9)}`,
      `${format(values[i], 3)} relative to the final value`,
    ],
    place,
    nearest: (px) => clamp(Math.round(scale(left, right, 0, last)(px)), 0, count - 1),
    cursor: circleCursor(chart, place),
  });
}
