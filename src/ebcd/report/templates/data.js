// The numbers of the page: a table of contents as JSON, and one packed block (see _encode.py).

const header = JSON.parse(document.getElementById("header").textContent);
const data = { names: [], rows: [] };

async function unpack() {
  const text = atob(document.getElementById("packed").textContent);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function loadData() {
  const bytes = await unpack();
  for (const [name, entry] of Object.entries(header.contents)) {
    data[name] = "length" in entry ? readTexts(bytes, entry) : readNumbers(bytes, entry);
  }
  if (data.down) {
    data.lower = endsOf(data.down, -1);
    data.upper = endsOf(data.up, 1);
  }
}

// Large pages have ends of intervals as distances from the loading in standard deviations; an end
// at zero has none.
function endsOf(reaches, side) {
  return reaches.map((row, k) =>
    row.map((reach, j) =>
      Number.isNaN(reach) ? 0 : data.loadings[k][j] + side * reach * data.sd[k][j],
    ),
  );
}

function readTexts(bytes, { start, length }) {
  return JSON.parse(new TextDecoder().decode(bytes.subarray(start, start + length)));
}

const orders = {}; // of the entries of each component, by which tables are sorted

// An array of one or two dimensions; of two, a list of rows.
function readNumbers(bytes, { start, shape, width, missing, by }) {
  const count = shape.reduce((a, b) => a * b, 1);
  const values = new Float64Array(count);
  const powers = Array.from({ length: 309 }, (_, i) => Number(`1e${i}`));
  const whole = readWhole(bytes, start, count, width);
  const power = readWhole(bytes, start + width * count, count, 2);
  const rows = (array) =>
    Array.from({ length: shape[0] }, (_, k) => array.subarray(k * shape[1], (k + 1) * shape[1]));
  if (by) {
    const order = (orders[by] ||= range(shape[0]).map((k) => orderOf(...by.map((n) => data[n][k]))));
    for (const steps of [whole, power]) rows(steps).forEach((row, k) => addUp(row, order[k]));
  }
  for (let i = 0; i < count; i++) {
    // dividing by an exact power of ten gives the double nearest to the decimal
    const size = powers[Math.abs(power[i])];
    values[i] = whole[i] === missing ? NaN : power[i] < 0 ? whole[i] / size : whole[i] * size;
  }
  return shape.length === 1 ? values : rows(values);
}

// Whole numbers whose bytes of equal rank lie together.
function readWhole(bytes, start, count, width) {
  const whole = new Int32Array(count);
  const shift = 8 * (4 - width);
  for (let byte = 0; byte < width; byte++)
    for (let i = 0; i < count; i++) whole[i] |= bytes[start + byte * count + i] << (8 * byte);
  for (let i = 0; i < count; i++) whole[i] = (whole[i] << shift) >> shift; // carries the sign up
  return whole;
}

// The numbers themselves from steps in an order: even for a step up, odd for one down.
function addUp(row, order) {
  const steps = row.slice();
  let sum = 0;
  for (let i = 0; i < row.length; i++) {
    const step = steps[i] & 0xffff;
    sum += step % 2 ? -(step + 1) / 2 : step / 2;
    row[order[i]] = sum;
  }
}

// Order by value, or by ratio; the same bits as in `order_of` of _encode.py. Values of 32 bits become
// whole numbers of the same order, so that they can be sorted together with their places.
function orderOf(values, divisors = null) {
  const count = values.length;
  const keys = new Float32Array(count);
  for (let i = 0; i < count; i++)
    keys[i] = (divisors ? values[i] / divisors[i] : values[i]) || 0; // and not -0 or NaN
  const bits = new Int32Array(keys.buffer);
  const room = 2 ** 19; // for more places than a page has
  const both = new Float64Array(count);
  for (let i = 0; i < count; i++) both[i] = (bits[i] < 0 ? bits[i] ^ 0x7fffffff : bits[i]) * room + i;
  both.sort();
  for (let i = 0; i < count; i++) both[i] -= Math.floor(both[i] / room) * room;
  return both;
}

const range = (n) => Array.from({ length: n }, (_, i) => i);
const hasClearSign = (k, j) => (data.lfsr ? data.lfsr[k][j] <= state.level : data.loadings[k][j] !== 0);

// What a component is called: by its reader, or by its number, counted from 1.
const called = (k) => (state.names[k] ? `${k + 1} · ${state.names[k]}` : `component ${k + 1}`);
const titled = (k) => called(k).replace(/^c/, "C");
const brief = (k) => state.names[k] || String(k + 1);
const foundAgain = (k) => `found again in ${percent(header.stability[k], 0)} of halves`;

// Components that do not stand out from noise are drawn faintly.
const isWeak = (k) => header.weak.includes(k);

// Numbers for people: four significant digits, a real minus sign.
function format(value, digits = 4) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const rounded = Number(value.toPrecision(digits));
  return (size >= 1e-4 && size < 1e6 ? String(rounded) : rounded.toExponential()).replaceAll(
    "-",
    "−",
  );
}

const percent = (share, decimals = 1) =>
  share === 0 || share >= 0.0095
    ? `${(100 * share).toFixed(decimals)}%`
    : `${format(100 * share, 1)}%`;
const counted = (number) => number.toLocaleString("en");

function loadingLines(k, j) {
  const lines = [`loading ${format(data.loadings[k][j])}`];
  if (data.lower)
    lines.push(`${header.interval} ${format(data.lower[k][j], 3)} to ${format(data.upper[k][j], 3)}`);
  if (data.lfsr)
    lines.push(`lfsr ${format(data.lfsr[k][j], 3)}${hasClearSign(k, j) ? "" : ": no clear sign"}`);
  return lines;
}
