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
  const shift = 8 * (4 - width);
  const high = start + width * count;
  for (let i = 0; i < count; i++) {
    let whole = 0;
    for (let byte = 0; byte < width; byte++) whole |= bytes[start + byte * count + i] << (8 * byte);
    whole = (whole << shift) >> shift; // carries the sign up
    const power = ((bytes[high + i] | (bytes[high + count + i] << 8)) << 16) >> 16;
    // dividing by an exact power of ten gives the double nearest to the decimal
    values[i] =
      whole === missing ? NaN : power < 0 ? whole / powers[-power] : whole * powers[power];
  }
  if (shape.length === 1) return values;
  return Array.from({ length: shape[0] }, (_, k) =>
    values.subarray(k * shape[1], (k + 1) * shape[1]),
  );
}

const range = (n) => Array.from({ length: n }, (_, i) => i);
const isSure = (k, j) => (data.lfsr ? data.lfsr[k][j] <= state.level : data.loadings[k][j] !== 0);

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

const percent = (share) =>
  share === 0 || share >= 0.0095 ? `${(100 * share).toFixed(1)}%` : `${format(100 * share, 1)}%`;
const counted = (number) => number.toLocaleString("en");

function loadingLines(k, j) {
  const lines = [
    `loading ${format(data.loadings[k][j])}${data.sd ? ` ± ${format(2 * data.sd[k][j], 2)}` : ""}`,
  ];
  if (data.lfsr)
    lines.push(`lfsr ${format(data.lfsr[k][j], 3)}${isSure(k, j) ? "" : ": sign not sure"}`);
  return lines;
}
