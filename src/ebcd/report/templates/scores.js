// Scores: lines over time or by row, one panel for each component, or a scatter of two components.

const PANEL = 120;

function drawScores() {
  const kind = byId("score-view").value;
  for (const label of document.querySelectorAll(".pair")) label.hidden = kind !== "scatter";
  const over = { time: "over time", rows: "by row" };
  const [across, up] = [Number(byId("score-x").value), Number(byId("score-y").value)];
  const made =
    kind === "scatter"
      ? figure({
          title: `Component ${up} against component ${across}`,
          note: "one point for each row",
          file: `scores-${across}-${up}`,
        })
      : figure({
          title: `Scores ${over[kind]}`,
          note: kind === "time" ? "shaded: clearly low or high" : "1 is a typical size",
          file: "scores",
        });
  byId("score-chart").replaceChildren(made.frame);
  if (kind === "scatter") drawScatter(made.plot, across, up);
  else drawLines(made.plot, kind === "time");
}

const rowName = (i) => data.rows[i] || `row ${i}`;

function drawLines(plot, byTime) {
  const { picked } = state;
  const count = header.rows.shown;
  const order = range(count);
  if (byTime) order.sort((a, b) => data.days[a] - data.days[b]);
  const place = (i) => (byTime ? data.days[order[i]] : i);
  const width = Math.max(plot.clientWidth, 240);
  const height = Math.max(picked.length * PANEL + 26, 40);
  const [left, right] = [44, width - 8];
  const [from, to] = count ? [place(0), place(count - 1)] : [0, 1];
  const x = scale(from, to, left, right);
  const chart = canvas(
    width,
    height,
    `Scores of components ${picked.join(", ")}. Arrow keys move from row to row.`,
  );
  const line = svg("line", { class: "cursor-line", y1: 0, y2: height - 26, visibility: "hidden" });
  const marks = byTime
    ? timeTicks(from + header.firstDay, to + header.firstDay, (right - left) / 75).map(
        ([day, text]) => [day - header.firstDay, text],
      )
    : ticks(from, to, (right - left) / 75)
        .filter(Number.isInteger)
        .map((mark) => [
          mark,
          data.rows[order[mark]] ? shorten(data.rows[order[mark]], 70) : String(mark),
        ]);
  const dots = picked.map(() => svg("circle", { class: "cursor", r: 3.5, visibility: "hidden" }));
  const panels = picked.map((k, p) => {
    const [low, high] = span(data.scores[k], 0.08);
    const y = scale(Math.min(low, -1), Math.max(high, 1), (p + 1) * PANEL - 10, p * PANEL + 20);
    if (byTime)
      chart.append(
        ...header.stretches[k].map(([first, last]) =>
          svg("rect", {
            class: "row-cursor",
            x: x(first),
            width: Math.max(x(last) - x(first), 1),
            y: p * PANEL + 20,
            height: PANEL - 30,
          }),
        ),
      );
    for (const [mark] of marks)
      chart.append(
        svg("line", {
          class: "grid-line",
          x1: x(mark),
          x2: x(mark),
          y1: p * PANEL + 20,
          y2: (p + 1) * PANEL - 10,
        }),
      );
    verticalAxis(chart, y, ticks(Math.min(low, -1), Math.max(high, 1), 4), left, right);
    chart.append(svg("text", { class: "strong", x: left, y: p * PANEL + 12 }, `component ${k}`));
    chart.append(
      svg("path", {
        class: "curve thin",
        d: path(
          count,
          (i) => x(place(i)),
          (i) => y(data.scores[k][order[i]]),
        ),
      }),
    );
    return y;
  });
  for (const [mark, text] of marks)
    bottomLabel(chart, x(mark), height - 8, text, x(mark) > right - 20 ? "end" : "middle");
  chart.append(line, ...dots);
  plot.replaceChildren(chart);
  const cursor = (i) => {
    const visibility = i < 0 ? "hidden" : "visible";
    if (i >= 0) fill(line, { x1: x(place(i)), x2: x(place(i)) }, []);
    line.setAttribute("visibility", visibility);
    picked.forEach((k, p) =>
      fill(
        dots[p],
        i < 0
          ? { visibility }
          : { visibility, cx: x(place(i)), cy: panels[p](data.scores[k][order[i]]) },
        [],
      ),
    );
  };
  explore(chart, {
    count,
    text: (i) => [
      rowName(order[i]),
      ...picked.map((k) => `component ${k}: ${format(data.scores[k][order[i]], 3)}`),
    ],
    place: (i) => [x(place(i)), picked.length ? panels[0](data.scores[picked[0]][order[i]]) : 0],
    nearest: (across) =>
      nearestAlong(place, count, from + ((across - left) / (right - left)) * (to - from)),
    cursor,
  });
}

// Index whose place is nearest to a value; places rise.
function nearestAlong(place, count, value) {
  let [low, high] = [0, count - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (place(middle) <= value) low = middle;
    else high = middle;
  }
  return high >= 0 && Math.abs(place(high) - value) < Math.abs(place(low) - value) ? high : low;
}

function drawScatter(plot, across, up) {
  const [a, b] = [data.scores[across], data.scores[up]];
  const count = header.rows.shown;
  const width = Math.max(plot.clientWidth, 240);
  const height = Math.min(width * 0.75, 560);
  const [left, bottom] = [44, height - 40];
  const [[x0, x1], [y0, y1]] = [span(a), span(b)];
  const [x, y] = [scale(x0, x1, left, width - 8), scale(y0, y1, bottom, 8)];
  const chart = canvas(
    width,
    height,
    `Scores of component ${up} against those of component ${across}. Arrow keys move from row to row.`,
  );
  for (const mark of ticks(x0, x1, (width - left) / 80)) {
    chart.append(
      svg("line", {
        class: mark === 0 ? "axis" : "grid-line",
        x1: x(mark),
        x2: x(mark),
        y1: 8,
        y2: bottom,
      }),
    );
    bottomLabel(chart, x(mark), bottom + 17, format(mark, 6));
  }
  verticalAxis(chart, y, ticks(y0, y1, height / 70), left, width - 8);
  bottomLabel(chart, width - 8, height - 5, `component ${across}`, "end");
  chart.append(svg("text", { x: left + 6, y: 18 }, `component ${up}`));
  const dots = range(count)
    .map((i) => `M${x(a[i]).toFixed(1)} ${y(b[i]).toFixed(1)}h0`)
    .join(""); // one path: quick with many rows
  const cursor = svg("circle", { class: "cursor", r: 5, visibility: "hidden" });
  chart.append(
    svg("path", { class: "dots", d: dots, "stroke-width": count > 5000 ? 3 : 6 }),
    cursor,
  );
  plot.replaceChildren(chart);
  explore(chart, {
    count,
    text: (i) => [
      rowName(i),
      `component ${across}: ${format(a[i], 3)}`,
      `component ${up}: ${format(b[i], 3)}`,
    ],
    place: (i) => [x(a[i]), y(b[i])],
    nearest: (px, py) => {
      let [best, least] = [-1, Infinity];
      for (let i = 0; i < count; i++) {
        const distance = (x(a[i]) - px) ** 2 + (y(b[i]) - py) ** 2;
        if (distance < least) [best, least] = [i, distance];
      }
      return best;
    },
    cursor: (i) =>
      fill(
        cursor,
        i < 0 ? { visibility: "hidden" } : { visibility: "visible", cx: x(a[i]), cy: y(b[i]) },
        [],
      ),
  });
}

function setUpScores() {
  const options = (chosen) =>
    range(header.components).map((k) =>
      html("option", { value: k, selected: k === chosen }, `component ${k}`),
    );
  byId("score-x").append(...options(0));
  byId("score-y").append(...options(Math.min(1, header.components - 1)));
  if (!data.days) {
    byId("score-view").querySelector("[value=time]").remove();
    byId("score-view").value = header.components > 1 ? "scatter" : "rows";
  }
  for (const id of ["score-view", "score-x", "score-y"])
    byId(id).addEventListener("change", drawScores);
  addChart(drawScores, "picked");
}
