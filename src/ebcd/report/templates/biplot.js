// Scores of two components as points, colored and labeled by a column, and loadings as arrows.

function drawBiplot(plot, across, up) {
  const [a, b] = [data.scores[across], data.scores[up]];
  const count = header.rows.shown;
  const width = widthOf(plot);
  const arrows = byId("score-arrows").checked ? biplotArrows(across, up, width < 500 ? 6 : 10) : [];
  const colors = pointColors();
  const legend = legendRows(colors.entries, width - 52);
  const top = 8 + 20 * legend.rows;
  const height = Math.min(width * 0.8, 620) + top;
  const [left, right, bottom] = [44, width - 8, height - 40];
  let [x0, x1] = span([...a, ...arrows.map(({ end }) => end[0])], 0.04);
  for (const { j, end } of [...arrows, ...arrows]) {
    // twice, since either end moves the other: so far that there is room for the name beside the tip
    const free = right - left - Math.min(textWidth(data.names[j]), 0.3 * width) - 10;
    const needed = (length) => (length * (right - left)) / free;
    if (end[0] < 0) x0 = Math.min(x0, x1 - needed(x1 - end[0]));
    else x1 = Math.max(x1, x0 + needed(end[0] - x0));
  }
  const [y0, y1] = span([...b, ...arrows.map(({ end }) => end[1])], 0.08);
  const [x, y] = [scale(x0, x1, left, right), scale(y0, y1, bottom, top)];
  const words = `Scores of ${called(up)} against those of ${called(across)}, with loadings as arrows`;
  const chart = canvas(width, height, `${words}. Arrow keys move from row to row.`);
  axisAcross(chart, x, ticks(x0, x1, (right - left) / 80), top, bottom);
  axisUp(chart, y, ticks(y0, y1, height / 70), left, right);
  const place = (i) => [x(a[i]), y(b[i])];
  // one path for each color, since thousands of circles are slow
  const paths = new Map();
  for (let i = 0; i < count; i++) {
    const color = colors.of(i);
    if (!paths.has(color)) paths.set(color, []);
    paths.get(color).push(`M${place(i).map((value) => value.toFixed(1))}h0`);
  }
  const look = count > 3000 ? { class: "dots many", "stroke-width": 3 } : { class: "dots", "stroke-width": 6 };
  for (const [color, dots] of paths)
    chart.append(svg("path", { ...look, d: dots.join(""), style: `stroke:${color}` }));
  drawLegend(chart, legend, 44);
  chart.append(
    label(right, height - 5, called(across), "end"),
    label(left + 6, top + 10, called(up)),
    ...pointLabels(place, count, width < 500 ? 15 : 40),
    ...arrowParts(arrows, x, y, width),
  );
  plot.replaceChildren(chart);
  const told = (k, score) => `${called(k)}: ${format(score, 3)}`;
  explore(chart, {
    count,
    text: (i) => [
      rowName(i),
      told(across, a[i]),
      told(up, b[i]),
      ...header.groups.map(({ name }, g) => `${name}: ${groupText(g, i)}`),
    ],
    place,
    nearest: (px, py) => nearestPoint(place, count, px, py),
    cursor: circleCursor(chart, place, 5),
  });
}

// The longest arrows, on a scale of their own that fits them among the points.
function biplotArrows(across, up, most) {
  const end = (j) => [data.loadings[across][j], data.loadings[up][j]];
  const all = range(data.names.length).map((j) => ({ j, end: end(j) }));
  const chosen = all
    .sort((one, other) => Math.hypot(...other.end) - Math.hypot(...one.end))
    .filter(({ end }, i, sorted) => Math.hypot(...end) > 0.03 * Math.hypot(...sorted[0].end))
    .slice(0, most);
  if (state.feature >= 0 && !chosen.some(({ j }) => j === state.feature)) chosen.push(all[state.feature]);
  const largest = (values) => values.reduce((size, value) => Math.max(size, Math.abs(value)), 1e-300);
  const factors = [data.scores[across], data.scores[up]].map(
    (scores, axis) => (0.85 * largest(scores)) / largest(chosen.map(({ end }) => end[axis])),
  );
  return chosen.map(({ j, end }) => ({ j, end: end.map((v) => v * Math.min(...factors)) }));
}

// Arrows with the names of features, which move up where they would cover each other.
function arrowParts(arrows, x, y, width) {
  const [parts, names, placed] = [[], [], []];
  for (const { j, end } of [...arrows].sort((one, other) => one.end[1] - other.end[1])) {
    const [tipX, tipY] = [x(end[0]), y(end[1])];
    const [dx, dy] = [tipX - x(0), tipY - y(0)];
    const size = Math.hypot(dx, dy) || 1;
    const [u, v] = [dx / size, dy / size];
    const head = [
      [tipX, tipY],
      [tipX - 9 * u + 3.5 * v, tipY - 9 * v - 3.5 * u],
      [tipX - 9 * u - 3.5 * v, tipY - 9 * v + 3.5 * u],
    ];
    const kind = j === state.feature ? "arrow chosen" : "arrow";
    parts.push(line(kind, x(0), y(0), tipX - 6 * u, tipY - 6 * v));
    parts.push(svg("path", { class: `${kind} head`, d: `M${head.join("L")}Z` }));
    const toRight = dx >= 0;
    const room = toRight ? width - tipX - 8 : tipX - 8;
    const text = shorten(data.names[j], Math.max(room, 60));
    let at = tipY + 4;
    for (const [from, to, line] of placed)
      if (from < tipX + 60 && to > tipX - 60 && at > line - 14) at = Math.min(at, line - 14);
    placed.push([tipX - 60, tipX + 60, at]);
    const spot = [tipX + (toRight ? 6 : -6), at, text, toRight ? "start" : "end"];
    names.push(label(...spot, "name under"), label(...spot, "name"));
  }
  return [...parts, ...names];
}

// Texts of the outermost points.
function pointLabels(place, count, most) {
  const wanted = byId("score-label").value;
  if (!wanted || !count) return [];
  const [a, b] = [byId("score-x").value, byId("score-y").value].map((k) => data.scores[k]);
  const order = range(count).sort((i, j) => a[j] ** 2 + b[j] ** 2 - a[i] ** 2 - b[i] ** 2);
  return order.slice(0, most).map((i) => {
    const [x, y] = place(i);
    const text = wanted === "rows" ? rowName(i) : groupText(Number(wanted), i);
    return label(x + 5, y - 5, shorten(text, 110), "start", "small");
  });
}

function groupText(group, i) {
  const [{ categories }, value] = [header.groups[group], data[`group_${group}`][i]];
  if (Number.isNaN(value)) return "missing";
  return categories ? categories[value] : format(value);
}

// The color of each point, and what colors mean.
const SHADES = 16; // of a column of numbers
function pointColors() {
  const chosen = byId("score-color").value;
  if (chosen === "") return { of: () => color("--positive"), entries: [] };
  const group = Number(chosen);
  const [{ categories }, values] = [header.groups[group], data[`group_${group}`]];
  const gray = color("--unclear");
  const gaps = values.some(Number.isNaN) ? [[[gray], "missing"]] : [];
  if (categories) {
    const tints = categories.map((name, g) => (name === "others" && g > 7 ? gray : color(`--g${g}`)));
    const entries = categories.map((name, g) => [[tints[g]], name]);
    return { of: (i) => tints[values[i]] ?? gray, entries: [...entries, ...gaps] };
  }
  const [low, high] = span(
    values.filter((value) => !Number.isNaN(value)),
    0,
  );
  const [from, to] = [hex("--low"), hex("--high")];
  const shades = range(SHADES).map(
    (s) => `rgb(${from.map((c, i) => Math.round(c + ((to[i] - c) * s) / (SHADES - 1)))})`,
  );
  const of = (i) =>
    Number.isNaN(values[i])
      ? gray
      : shades[Math.round(((values[i] - low) / (high - low || 1)) * (SHADES - 1))];
  const { name } = header.groups[group];
  return { of, entries: [[shades, `${name}: ${format(low, 3)} to ${format(high, 3)}`], ...gaps] };
}

// Entries of a legend in as many rows as they need: colors, text, place.
function legendRows(entries, width) {
  let [across, row] = [0, 0];
  const placed = entries.map(([tints, name]) => {
    const text = shorten(name, width - 30);
    const size = 10 * tints.length + 6 + textWidth(text) + 18;
    if (across && across + size > width) [across, row] = [0, row + 1];
    across += size;
    return { tints, text, x: across - size, row };
  });
  return { placed, rows: entries.length ? row + 1 : 0 };
}

function drawLegend(chart, { placed }, left) {
  for (const { tints, text, x, row } of placed) {
    const y = 4 + 20 * row;
    tints.forEach((tint, i) =>
      chart.append(svg("rect", { x: left + x + 10 * i, y, width: 10, height: 10, fill: tint })),
    );
    chart.append(label(left + x + 10 * tints.length + 6, y + 10, text, "start", "name"));
  }
}
