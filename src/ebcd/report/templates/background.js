// The data: correlations in a small picture; and other methods beside ours.

const HEAD = 40;

function drawCorrelations() {
  const count = data.correlated.length;
  const all = header.features.all;
  const note = `${count < all ? `${count} of ` : ""}${counted(all)} features`;
  const made = figure({ title: "Correlations", note, file: "correlations" });
  byId("correlations").replaceChildren(made.frame);
  const width = widthOf(made.plot);
  const named = count <= 20;
  const widest = Math.max(...data.correlated.map((name) => textWidth(name)));
  const left = named ? Math.min(widest + 8, 0.4 * width) : 0;
  const cell = Math.min((width - left) / count, 22);
  const height = cell * count;
  const chart = canvas(width, height, `Correlations of ${count} features`);
  const shades = palette().clear;
  data.correlations.forEach((row, i) => {
    if (named)
      chart.append(
        label(left - 6, (i + 0.5) * cell + 4, shorten(data.correlated[i], left - 8), "end", "name"),
      );
    row.forEach((value, j) => {
      const fill = `rgb(${shades[Math.round(127 + 127 * clamp(value, -1, 1))]})`;
      const size = Math.max(cell - 1, 1);
      chart.append(svg("rect", { x: left + j * cell, y: i * cell, width: size, height: size, fill }));
    });
  });
  made.plot.replaceChildren(chart);
  const at = (n) => [Math.floor(n / count), n % count];
  const mark = chart.appendChild(rect("cell-cursor", 0, 0, cell - 1, cell - 1));
  mark.setAttribute("visibility", "hidden");
  explore(chart, {
    count: count * count,
    text: (n) => {
      const [i, j] = at(n);
      return [
        `${data.correlated[i]} and ${data.correlated[j]}`,
        `correlation ${format(data.correlations[i][j], 2)}`,
      ];
    },
    place: (n) => [left + (at(n)[1] + 0.5) * cell, at(n)[0] * cell],
    nearest: (px, py) =>
      clamp(Math.floor(py / cell), 0, count - 1) * count +
      clamp(Math.floor((px - left) / cell), 0, count - 1),
    cursor: (n) => {
      const [i, j] = n < 0 ? [0, 0] : at(n);
      const visibility = n < 0 ? "hidden" : "visible";
      fill(mark, { x: left + j * cell, y: i * cell, visibility }, []);
    },
  });
}

// Loadings of a component in our method, PCA and varimax, of the features that are large in any.
function drawOthers() {
  const k = Number(byId("other-component").value);
  const methods = [
    { name: header.method, at: (i) => data.loadings[k][data.compared[i]] },
    ...header.others.map(({ name, cosines }) => ({
      name,
      cosine: cosines[k],
      at: (i) => data[`other_${name}`][k][i],
    })),
  ];
  const made = figure({
    title: titled(k),
    note: "and the nearest components of other methods",
    file: `methods-${k + 1}`,
  });
  byId("other-chart").replaceChildren(made.frame);
  const size = (i) => Math.max(...methods.map(({ at }) => Math.abs(at(i))));
  const rows = range(data.compared.length)
    .sort((i, j) => size(j) - size(i))
    .slice(0, header.listed)
    .sort((i, j) => (header.ordered[k] ? i - j : methods[0].at(j) - methods[0].at(i)));
  const width = widthOf(made.plot);
  const names = rows.map((i) => data.names[data.compared[i]]);
  const left = Math.min(Math.max(...names.map((name) => textWidth(name)), 20) + 10, 0.36 * width);
  const wide = (width - left) / methods.length;
  const height = rows.length * ROW + HEAD + 30;
  const [low, high] = span([0, ...rows.flatMap((i) => methods.map(({ at }) => at(i)))], 0.03);
  const words = `Loadings of ${called(k)} by ${methods.map(({ name }) => name).join(", ")}`;
  const chart = canvas(width, height, `${words}. Arrow keys move through them.`);
  const cursor = bandCursor(chart, width, ROW, (n) => [0, HEAD + n * ROW]);
  names.forEach((name, n) =>
    chart.append(label(left - 6, HEAD + n * ROW + 15, shorten(name, left - 10), "end", "name")),
  );
  methods.forEach(({ name, cosine, at }, m) => {
    const x = scale(low, high, left + m * wide + 10, left + (m + 1) * wide - 10);
    chart.append(label(left + m * wide + 10, 14, shorten(name, wide - 12), "start", "strong"));
    if (cosine !== undefined) {
      const words = ["cosine", "cos"].map((word) => `${word} ${cosine.toFixed(2)}`);
      const text = words.find((some) => textWidth(some) < wide - 12) ?? words[1];
      chart.append(label(left + m * wide + 10, 30, text));
    }
    axisAcross(chart, x, ticks(low, high, wide / 90), HEAD, height - 29);
    rows.forEach((i, n) => {
      const value = at(i);
      const gray = value === 0 || (m === 0 && !hasClearSign(k, data.compared[i]));
      const kind = gray ? "unclear" : value < 0 ? "negative" : "positive";
      const length = Math.max(Math.abs(x(value) - x(0)), 0.5);
      chart.append(rect(kind, Math.min(x(0), x(value)), HEAD + n * ROW + 4, length, ROW - 8, 1.5));
    });
  });
  made.plot.replaceChildren(chart);
  explore(chart, {
    count: rows.length,
    text: (n) => [names[n], ...methods.map(({ name, at }) => `${name} ${format(at(rows[n]), 3)}`)],
    place: (n) => [left, HEAD + n * ROW],
    nearest: (_, py) => clamp(Math.floor((py - HEAD) / ROW), 0, rows.length - 1),
    cursor,
    choose: (n) => change({ feature: data.compared[rows[n]] }),
  });
}

function setUpBackground() {
  if (data.correlations && data.correlated.length > 1) {
    byId("correlations").hidden = false;
    addChart(drawCorrelations);
  }
  if (!header.others.length || !header.components) return;
  byId("others").hidden = false;
  byId("other-component").append(...componentOptions(header.first[0]));
  byId("other-component").addEventListener("change", drawOthers);
  addChart(drawOthers, "level", "names");
}
