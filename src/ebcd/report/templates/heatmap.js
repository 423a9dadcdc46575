// The heat map's features in their order, and its colors; heatmap_view.js draws them.

const heat = { order: new Uint32Array(0), top: 0, cell: [-1, 0], limits: [] };

function heatKeep() {
  const part = byId("heat-name").value.trim().toLowerCase();
  const least = byId("heat-least").valueAsNumber || 0;
  const clear = byId("heat-clear").checked;
  const { picked } = state;
  return (j) => {
    if (part && !data.names[j].toLowerCase().includes(part)) return false;
    if (least <= 0 && !clear) return true;
    return picked.some((k) => Math.abs(data.loadings[k][j]) >= least && (!clear || hasClearSign(k, j)));
  };
}

// Features side by side that belong to the same component, by size and sign within it.
function groupKeys() {
  const lengths = data.loadings.map(
    (row) => Math.sqrt(row.reduce((sum, v) => sum + v * v, 0)) || 1,
  );
  return Float64Array.from(data.names, (_, j) => {
    let [best, share] = [0, -1];
    state.picked.forEach((k, i) => {
      const size = Math.abs(data.loadings[k][j]) / lengths[k];
      if (size > share) [best, share] = [i, size];
    });
    const k = state.picked[best];
    return k === undefined ? 0 : best * 4 + 1 - data.loadings[k][j] / lengths[k];
  });
}

let nameOrder = null; // comparing names is slow, so they are sorted once
function nameRanks() {
  if (nameOrder) return nameOrder;
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  nameOrder = new Uint32Array(data.names.length);
  range(data.names.length)
    .sort((a, b) => compare(data.names[a], data.names[b]) || a - b)
    .forEach((j, rank) => {
      nameOrder[j] = rank;
    });
  return nameOrder;
}

function heatOrder() {
  const kept = Uint32Array.from(range(data.names.length).filter(heatKeep()));
  const [kind, k] = byId("heat-sort").value.split(":");
  if (kind === "data") return kept;
  let keys;
  if (kind === "name") keys = nameRanks();
  else if (kind === "group") keys = groupKeys();
  else keys = data.loadings[k].map(kind === "size" ? (v) => -Math.abs(v) : (v) => -v);
  return kept.sort((a, b) => keys[a] - keys[b] || a - b);
}

// Largest loading that the colors reach: of all components, or of each.
function heatLimits() {
  const largest = data.loadings.map(
    (row) => row.reduce((most, v) => Math.max(most, Math.abs(v)), 0) || 1,
  );
  if (byId("heat-scale").value === "own") return largest;
  const most = Math.max(...state.picked.map((k) => largest[k]));
  return largest.map(() => most);
}

function hex(name) {
  const value = parseInt(color(name).slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

// Colors from -1 to 1 in 255 steps, as numbers; gray for loadings without a clear sign.
function palette() {
  const [negative, middle, positive, unclear] = [
    "--negative",
    "--middle",
    "--positive",
    "--unclear",
  ].map(hex);
  const mix = (a, b, t) => a.map((channel, i) => Math.round(channel + (b[i] - channel) * t));
  const along = (end) =>
    range(255).map((i) => {
      const t = (i - 127) / 127;
      return mix(middle, end(t), Math.abs(t) ** 0.8);
    });
  return {
    clear: along((t) => (t < 0 ? negative : positive)),
    unclear: along(() => mix(middle, unclear, 0.75)),
  };
}

function cellColor(colors, k, j) {
  const t = data.loadings[k][j] / heat.limits[k];
  const step = Math.round(127 + 127 * Math.max(-1, Math.min(1, t)));
  return (hasClearSign(k, j) ? colors.clear : colors.unclear)[step];
}

// For each line of the overview and each component, the feature with the largest loading there.
function strongestPerLine(lines) {
  const count = heat.order.length;
  return state.picked.map((k) => {
    const loadings = data.loadings[k];
    const strongest = new Int32Array(lines);
    for (let line = 0; line < lines; line++) {
      const first = Math.floor((line * count) / lines);
      const last = Math.max(Math.floor(((line + 1) * count) / lines), first + 1);
      let [best, size] = [heat.order[first], -1];
      for (let i = first; i < last; i++) {
        const here = Math.abs(loadings[heat.order[i]]);
        if (here > size) [best, size] = [heat.order[i], here];
      }
      strongest[line] = best;
    }
    return strongest;
  });
}
