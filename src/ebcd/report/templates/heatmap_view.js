// The heat map on the screen: only the rows in view are drawn, and an overview of all beside them.

const HEAT_ROW = 20;
const HEAT_HEAD = 24;
const HEAT_MOST = 26; // rows in view

const view = {}; // the nodes, and sizes that depend on the window

function buildHeatmap() {
  const made = figure({ title: "Loadings of all components", file: "heatmap" });
  view.count = made.frame.querySelector("b").appendChild(html("span", { class: "soft" }));
  view.sheet = svg("svg", { "aria-hidden": "true" });
  view.cursor = rect("cell-cursor", 0, 0, 0, HEAT_ROW - 3);
  view.spacer = html("div");
  view.scroll = html(
    "div",
    {
      class: "heat-scroll",
      tabindex: 0,
      role: "group",
      "aria-label":
        "Heat map of loadings. Arrow keys move between cells, Enter selects the feature.",
    },
    view.sheet,
    view.spacer,
  );
  view.overview = html("canvas", {
    class: "heat-overview",
    "aria-hidden": "true",
    title: "All features; click to jump there",
  });
  view.legend = html("div", { class: "legend" });
  made.plot.append(html("div", { class: "heat-frame" }, view.scroll, view.overview), view.legend);
  byId("heatmap").replaceChildren(made.frame);
  view.scroll.addEventListener("scroll", () => requestAnimationFrame(paintRows));
  view.scroll.addEventListener("pointermove", hoverCell);
  view.scroll.addEventListener("pointerdown", hoverCell);
  view.scroll.addEventListener("pointerleave", hideTip);
  view.scroll.addEventListener("blur", leaveCell);
  view.scroll.addEventListener(
    "click",
    () => heat.cell[0] >= 0 && change({ feature: heat.order[heat.cell[0]] }),
  );
  view.scroll.addEventListener("keydown", moveCell);
  const drag = (event) =>
    event.buttons &&
    goTo((event.offsetY / view.overview.clientHeight) * heat.order.length - view.lines / 2);
  view.overview.addEventListener("pointerdown", drag);
  view.overview.addEventListener("pointermove", drag);
}

function sizeSheet(sheet, width, height) {
  const sharp = Math.min(devicePixelRatio || 1, 3);
  Object.assign(sheet, { width: Math.round(width * sharp), height: Math.round(height * sharp) });
  Object.assign(sheet.style, { width: `${width}px`, height: `${height}px` });
  const pen = sheet.getContext("2d");
  pen.scale(sharp, sharp);
  return pen;
}

// New order or new size: measure, then paint.
function drawHeatmap() {
  const empty = state.picked.length === 0;
  heat.order = empty ? new Uint32Array(0) : heatOrder();
  heat.limits = empty ? [] : heatLimits();
  heat.cell = [-1, 0];
  view.colors = palette();
  view.lines = Math.min(Math.max(heat.order.length, 1), HEAT_MOST);
  const all = heat.order.length <= HEAT_MOST;
  const height = view.lines * HEAT_ROW + HEAT_HEAD;
  view.overview.hidden = all;
  view.scroll.style.height = `${height}px`;
  view.width = view.scroll.clientWidth;
  view.widest ??= widestName();
  view.names = Math.min(0.45 * view.width, 230, view.widest + 14);
  view.column = Math.min((view.width - view.names - 4) / Math.max(state.picked.length, 1), 320);
  fill(view.sheet, { width: view.width, height, viewBox: `0 0 ${view.width} ${height}` }, []);
  view.spacer.style.height = `${Math.max(heat.order.length - view.lines, 0) * HEAT_ROW}px`;
  view.count.textContent = ` · ${counted(heat.order.length)} of ${counted(header.features.shown)} features`;
  if (!all) paintOverview(height);
  paintLegend();
  paintRows();
  if (state.feature >= 0) showSearched();
}

// Of the longest names, for to measure all of a hundred thousand would take a second.
function widestName() {
  const longest = [...data.names].sort((a, b) => b.length - a.length).slice(0, 100);
  return longest.reduce((most, name) => Math.max(most, textWidth(name)), 0);
}

function paintOverview(height) {
  view.still = html("canvas");
  sizeSheet(view.overview, 44, height);
  const pen = sizeSheet(view.still, 44, height);
  const strongest = strongestPerLine(height);
  const wide = 44 / state.picked.length;
  state.picked.forEach((k, column) => {
    for (let line = 0; line < height; line++) {
      pen.fillStyle = `rgb(${cellColor(view.colors, k, strongest[column][line])})`;
      pen.fillRect(column * wide, line, Math.max(wide - 0.5, 0.5), 1);
    }
  });
}

const heatTop = () => Math.round(view.scroll.scrollTop / HEAT_ROW);
const heatHead = (k) => shorten(view.column > 90 ? called(k) : brief(k), view.column - 4);
const cellAt = (column) => view.names + column * view.column;

function paintRows() {
  heat.top = heatTop();
  const heads = state.picked.map((k, column) =>
    label(cellAt(column) + view.column / 2, 15, heatHead(k), "middle"),
  );
  const rows = Array.from(heat.order.subarray(heat.top, heat.top + view.lines), rowParts);
  const nothing = state.picked.length ? "No feature passes the filter." : "No component is selected.";
  if (!rows.length) rows.push([label(4, HEAT_HEAD + 14, nothing)]);
  view.sheet.replaceChildren(...heads, ...rows.flat(), view.cursor);
  placeCursor();
  if (!view.overview.hidden) paintWindow();
}

function rowParts(j, line) {
  const y = HEAT_HEAD + line * HEAT_ROW;
  const name = shorten(data.names[j], view.names - 12);
  return [
    ...(j === state.feature ? [rect("highlight", 0, y, view.names, HEAT_ROW)] : []),
    label(view.names - 8, y + 14, name, "end", "name"),
    ...state.picked.map((k, column) => {
      const cell = rect(null, cellAt(column), y + 0.5, view.column - 1, HEAT_ROW - 1);
      return fill(cell, { fill: `rgb(${cellColor(view.colors, k, j)})` }, []);
    }),
  ];
}

function placeCursor() {
  const [row, column] = heat.cell;
  const [x, y] = [cellAt(column) + 1, HEAT_HEAD + (row - heat.top) * HEAT_ROW + 1.5];
  const visibility = row < 0 ? "hidden" : "visible";
  fill(view.cursor, { x, y, width: Math.max(view.column - 3, 0), visibility }, []);
}

function paintWindow() {
  const pen = view.overview.getContext("2d");
  const height = view.overview.clientHeight;
  pen.clearRect(0, 0, 44, height);
  pen.drawImage(view.still, 0, 0, 44, height);
  const count = heat.order.length;
  pen.strokeStyle = color("--text");
  pen.lineWidth = 1.5;
  pen.strokeRect(1, (heat.top / count) * height, 42, Math.max((view.lines / count) * height, 4));
  const at = heat.order.indexOf(state.feature);
  if (at >= 0) {
    pen.fillStyle = color("--text");
    pen.fillRect(0, (at / count) * height - 1, 44, 2);
  }
}

function paintLegend() {
  const most = state.picked.length ? heat.limits[state.picked[0]] : 1;
  const own = byId("heat-scale").value === "own";
  const bar = html("i", { "aria-hidden": "true" });
  const stops = range(9).map((i) => `rgb(${view.colors.clear[Math.round((254 * i) / 8)]})`);
  bar.style.background = `linear-gradient(90deg, ${stops.join(",")})`;
  const [low, high] = own
    ? ["lowest", "highest of the component"]
    : [`−${format(most, 3)}`, format(most, 3)];
  const gray = html("i", { class: "swatch unclear", "aria-hidden": "true" });
  const unclear = data.lfsr ? html("span", {}, gray, `no clear sign (lfsr > ${state.level})`) : null;
  view.legend.replaceChildren(html("span", {}, low, bar, high), ...(unclear ? [unclear] : []));
}

function goTo(row) {
  view.scroll.scrollTop = Math.max(row, 0) * HEAT_ROW;
  paintRows();
}

function tellCell(said) {
  const [row, column] = heat.cell;
  const [k, j] = [state.picked[column], heat.order[row]];
  const frame = view.scroll.getBoundingClientRect();
  const y = frame.top + HEAT_HEAD + (row - heat.top) * HEAT_ROW;
  showTip(
    [data.names[j], called(k), ...loadingLines(k, j)],
    frame.left + cellAt(column) + view.column / 2,
    y,
    said,
  );
}

function hoverCell(event) {
  const frame = view.scroll.getBoundingClientRect();
  const row = heat.top + Math.floor((event.clientY - frame.top - HEAT_HEAD) / HEAT_ROW);
  const column = Math.floor((event.clientX - frame.left - view.names) / view.column);
  const inside = row >= heat.top && row < heat.order.length && column < state.picked.length;
  heat.cell = inside ? [row, Math.max(column, 0)] : [-1, 0];
  placeCursor();
  if (inside) tellCell(false);
  else hideTip();
}

function leaveCell() {
  heat.cell = [-1, 0];
  hideTip();
  placeCursor();
}

function moveCell(event) {
  const steps = {
    ArrowDown: [1, 0],
    ArrowUp: [-1, 0],
    ArrowRight: [0, 1],
    ArrowLeft: [0, -1],
    PageDown: [view.lines, 0],
    PageUp: [-view.lines, 0],
    Home: [-Infinity, 0],
    End: [Infinity, 0],
  };
  if (heat.order.length === 0) return;
  if (event.key === "Escape") leaveCell();
  if (event.key === "Enter" && heat.cell[0] >= 0) change({ feature: heat.order[heat.cell[0]] });
  if (!(event.key in steps)) return;
  event.preventDefault();
  const [down, right] = steps[event.key];
  const start = heat.cell[0] < 0 ? heat.top - (down === 1 ? 1 : 0) : heat.cell[0];
  heat.cell = [
    clamp(start + down, 0, heat.order.length - 1),
    clamp(heat.cell[1] + right, 0, state.picked.length - 1),
  ];
  if (heat.cell[0] < heat.top) goTo(heat.cell[0]);
  else if (heat.cell[0] >= heat.top + view.lines) goTo(heat.cell[0] - view.lines + 1);
  else placeCursor();
  tellCell(true);
}

function showSearched() {
  const at = heat.order.indexOf(state.feature);
  if (at < 0) return;
  if (at < heat.top || at >= heat.top + view.lines) goTo(at - Math.floor(view.lines / 2));
  else paintRows();
}

function setUpHeatmap() {
  const sorts = [
    ["group", "component"],
    ["data", "order in the data"],
    ["name", "name"],
  ];
  byId("heat-sort").append(
    ...sorts.map(([value, text]) => html("option", { value }, text)),
    ...componentOptions(-1, (k) => `value:${k}`, "value in "),
    ...componentOptions(-1, (k) => `size:${k}`, "size in "),
  );
  if (header.ordered.some(Boolean)) byId("heat-sort").value = "data";
  if (!data.lfsr) byId("heat-clear").parentElement.lastChild.textContent = " non-zero only";
  for (const id of ["heat-name", "heat-least"]) byId(id).addEventListener("input", drawHeatmap);
  for (const id of ["heat-sort", "heat-clear", "heat-scale"])
    byId(id).addEventListener("change", drawHeatmap);
  buildHeatmap();
  addChart(drawHeatmap, "picked", "level", "names");
  addChart(showSearched, "feature");
}
