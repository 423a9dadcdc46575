// Scores: lines over time or by row, one panel for each component, or a biplot (biplot.js).

const PANEL = 120;

function drawScores() {
  const kind = byId("score-view").value;
  for (const node of document.querySelectorAll(".pair")) node.hidden = kind !== "scatter";
  const [across, up] = [Number(byId("score-x").value), Number(byId("score-y").value)];
  const words = {
    time: { title: "Scores over time", note: "shaded: clearly low or high", file: "scores" },
    rows: { title: "Scores by row", note: "1 is a typical size", file: "scores" },
    scatter: {
      title: `${titled(up)} against ${called(across)}`,
      note: "one point per row; arrows show the direction of each feature",
      file: `biplot-${across + 1}-${up + 1}`,
    },
  };
  const made = figure(words[kind]);
  byId("score-chart").replaceChildren(made.frame);
  if (kind === "scatter") drawBiplot(made.plot, across, up);
  else drawLines(made.plot, kind === "time");
}

const rowName = (i) => data.rows[i] || `row ${i}`;

function drawLines(plot, byTime) {
  const { picked } = state;
  const count = header.rows.shown;
  const order = range(count);
  if (byTime) order.sort((a, b) => data.days[a] - data.days[b]);
  const when = (i) => (byTime ? data.days[order[i]] : i);
  const width = widthOf(plot);
  const height = picked.length * PANEL + 26;
  const [left, right] = [44, width - 8];
  const x = scale(when(0), when(count - 1), left, right);
  const marks = lineMarks(when(0), when(count - 1), (right - left) / 75, byTime);
  const words = `Scores of ${picked.map(called).join(", ")}`;
  const chart = canvas(width, height, `${words}. Arrow keys move from row to row.`);
  const panels = picked.map((k, p) => {
    const [low, high] = span([-1, 1, ...data.scores[k]], 0.06);
    const y = scale(low, high, (p + 1) * PANEL - 10, p * PANEL + 20);
    drawPanel(chart, k, p * PANEL + 20, x, marks, byTime);
    axisUp(chart, y, ticks(low, high, 4), left, right);
    chart.append(
      curve(
        "curve thin",
        count,
        (i) => x(when(i)),
        (i) => y(data.scores[k][order[i]]),
      ),
    );
    return (i) => y(data.scores[k][order[i]]);
  });
  for (const [mark, text] of marks)
    chart.append(label(x(mark), height - 8, text, x(mark) > right - 20 ? "end" : "middle"));
  plot.replaceChildren(chart);
  const cursors = panels.map((y) => circleCursor(chart, (i) => [x(when(i)), y(i)], 3.5));
  explore(chart, {
    count,
    text: (i) => [
      rowName(order[i]),
      ...picked.map((k) => `${called(k)}: ${format(data.scores[k][order[i]], 3)}`),
    ],
    place: (i) => [x(when(i)), panels.length ? panels[0](i) : 0],
    nearest: (px) => nearestAlong((i) => x(when(i)), count, px),
    cursor: (i) => cursors.forEach((move) => move(i)),
  });
}

// Places and texts of the marks below the lines.
function lineMarks(from, to, count, byTime) {
  if (byTime) {
    const first = header.firstDay;
    return timeTicks(from + first, to + first, count).map(([day, text]) => [day - first, text]);
  }
  const rows = ticks(from, to, count).filter(Number.isInteger);
  return rows.map((i) => [i, shorten(data.rows[i] || String(i), 70)]);
}

// What lies behind the line of a component: its name, times that are clearly low or high, a grid.
function drawPanel(chart, k, top, x, marks, byTime) {
  const height = PANEL - 30;
  chart.append(label(44, top - 8, called(k), "start", "strong"));
  for (const [first, last] of byTime ? header.stretches[k] : [])
    chart.append(rect("row-cursor", x(first), top, Math.max(x(last) - x(first), 1), height));
  for (const [mark] of marks) chart.append(line("grid-line", x(mark), top, x(mark), top + height));
}

// Index whose place is nearest to a value; places rise.
function nearestAlong(place, count, value) {
  let [low, high] = [0, count - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (place(middle) <= value) low = middle;
    else high = middle;
  }
  return Math.abs(place(high) - value) < Math.abs(place(low) - value) ? high : low;
}

function nearestPoint(place, count, px, py) {
  let [best, least] = [0, Infinity];
  for (let i = 0; i < count; i++) {
    const [x, y] = place(i);
    const distance = (x - px) ** 2 + (y - py) ** 2;
    if (distance < least) [best, least] = [i, distance];
  }
  return best;
}

function setUpScores() {
  byId("score-x").append(...componentOptions(0));
  byId("score-y").append(...componentOptions(Math.min(1, header.components - 1)));
  const columns = header.groups.map(({ name }, i) => html("option", { value: i }, name));
  byId("score-color").append(html("option", { value: "" }, "nothing"), ...columns);
  byId("score-label").append(
    html("option", { value: "" }, "nothing"),
    ...(data.rows.length ? [html("option", { value: "rows" }, "row names")] : []),
    ...columns.map((option) => option.cloneNode(true)),
  );
  byId("score-color").parentElement.classList.toggle("absent", !columns.length);
  byId("score-label").parentElement.classList.toggle("absent", !columns.length && !data.rows.length);
  if (columns.length) byId("score-color").value = "0";
  if (!data.days) byId("score-view").querySelector("[value=time]").remove();
  if (header.components < 2) byId("score-view").querySelector("[value=scatter]").remove();
  else if (columns.length || !data.days) byId("score-view").value = "scatter";
  const controls = ["score-view", "score-x", "score-y", "score-color", "score-label", "score-arrows"];
  for (const id of controls) byId(id).addEventListener("change", drawScores);
  addChart(drawScores, "picked", "names", "feature");
}
