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
}

function readTexts(bytes, { start, length }) {
  return JSON.parse(new TextDecoder().decode(bytes.subarray(start, start + length)));
}

// An array of one or two dimensions; of two, a list of rows.
function readNumbers(bytes, { start, shape, width, missing }) {
  const count = shape.reduce((a, b) => a * b, 1);
  const values = new Float64Array(count);
  const powers = Array.from({ length: 309 }, (_, i) => Number(`1e${i}`));
  const whole = readWhole(bytes, start, count, width);
  const power = readWhole(bytes, start + width * count, count, 2);
  for (let i = 0; i < count; i++) {
    // dividing by an exact power of ten gives the double nearest to the decimal
    const size = powers[Math.abs(power[i])];
    values[i] = whole[i] === missing ? NaN : power[i] < 0 ? whole[i] / size : whole[i] * size;
  }
  if (shape.length === 1) return values;
  return range(shape[0]).map((k) => values.subarray(k * shape[1], (k + 1) * shape[1]));
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

const range = (n) => Array.from({ length: n }, (_, i) => i);
const hasClearSign = (k, j) => (data.lfsr ? data.lfsr[k][j] <= state.level : data.loadings[k][j] !== 0);

// What a component is called: by its reader, or by its number, counted from 1.
const called = (k) => (state.names[k] ? `${k + 1} · ${state.names[k]}` : `component ${k + 1}`);
const titled = (k) => called(k).replace(/^c/, "C");
const brief = (k) => state.names[k] || String(k + 1);
const foundAgain = (k) => `found again in ${percent(header.stability[k], 0)} of ${header.parts}`;

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

function percent(share, decimals = 1) {
  if (share > 0 && share < 0.0095) return `${format(100 * share, 1)}%`;
  const step = 10 ** -decimals; // the last digit; what is not all is not rounded to all
  const almost = share < 1 - 1e-9 && 100 * (1 - share) <= step / 2;
  return almost ? `over ${format(100 - step)}%` : `${(100 * share).toFixed(decimals)}%`;
}
const counted = (number) => number.toLocaleString("en");

function loadingLines(k, j) {
  const lines = [`loading ${format(data.loadings[k][j])}`];
  if (data.lower)
    lines.push(`${header.interval} ${format(data.lower[k][j], 3)} to ${format(data.upper[k][j], 3)}`);
  if (data.lfsr)
    lines.push(`lfsr ${format(data.lfsr[k][j], 3)}${hasClearSign(k, j) ? "" : ": no clear sign"}`);
  return lines;
}
