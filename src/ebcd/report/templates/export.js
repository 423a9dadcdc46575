// Charts and tables as files.

// A chart in its frame, with buttons that save it. `file` is the name without its ending.
function figure({ title, note = "", file, named = -1 }) {
  const plot = html("div", { class: "plot" });
  const picture = () => plot.querySelector("svg");
  const button = (kind, save) =>
    html(
      "button",
      {
        type: "button",
        "aria-label": `Save as ${kind}: ${title}`,
        onclick: () => save(picture(), file),
      },
      kind,
    );
  const saves = html("span", { class: "saves" }, button("SVG", saveSvg), button("PNG", savePng));
  const naming = named < 0 ? null : namingField(named);
  const heading = html(
    "b",
    {},
    title,
    naming,
    note ? html("span", { class: "soft" }, naming ? note : ` · ${note}`) : null,
  );
  const frame = html("figure", { class: "card" }, html("figcaption", {}, heading, saves), plot);
  savable.set(frame, { file, picture });
  return { frame, plot };
}

const savable = new WeakMap(); // frames of charts, with what their buttons save

function namingField(k) {
  const field = html("input", {
    class: "naming",
    placeholder: "give it a name",
    "aria-label": `Name of component ${k + 1}`,
    value: state.names[k] || "",
    maxlength: 60,
    spellcheck: "false",
    autocomplete: "off",
    onchange: () => rename(k, field.value),
  });
  return field;
}

const COPIED = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-opacity",
  "stroke-linecap",
  "opacity",
  "font-family",
  "font-size",
  "font-weight",
];

// The text of a chart that looks the same outside the page: styles are written into it.
function standalone(picture) {
  const copy = picture.cloneNode(true);
  const [from, to] = [picture.querySelectorAll("*"), copy.querySelectorAll("*")];
  from.forEach((node, i) => {
    const style = picture.isConnected ? getComputedStyle(node) : node.style;
    for (const name of COPIED)
      if (style.getPropertyValue(name)) to[i].setAttribute(name, style.getPropertyValue(name));
    to[i].removeAttribute("class");
  });
  const ground = svg("rect", { width: "100%", height: "100%", fill: color("--card") });
  copy.prepend(ground);
  copy.setAttribute("xmlns", SVG);
  copy.removeAttribute("tabindex");
  return new XMLSerializer().serializeToString(copy);
}

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function saveFile(name, blob) {
  const link = html("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function saveSvg(picture, file) {
  saveFile(`${file}.svg`, new Blob([standalone(picture)], { type: "image/svg+xml" }));
}

function savePng(picture, file) {
  const { width, height } = picture.viewBox.baseVal;
  const image = new Image();
  image.onload = () => {
    const sheet = html("canvas", { width: 2 * width, height: 2 * height });
    sheet.getContext("2d").drawImage(image, 0, 0, sheet.width, sheet.height);
    sheet.toBlob((blob) => saveFile(`${file}.png`, blob), "image/png");
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(picture))}`;
}

function saveTable(file, columns, count, cell) {
  // an apostrophe in front of what a spreadsheet would run as a formula
  const safe = (value) => (/^'*[=+\-@\t\r]/.test(value) && isNaN(value) ? `'${value}` : value);
  const escaped = (value) =>
    /[",\r\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value);
  columns = typeof columns === "function" ? columns() : columns;
  const quote = (value) => escaped(safe(value));
  const lines = [columns.map(quote).join(",")];
  for (let i = 0; i < count; i++) lines.push(columns.map((_, c) => quote(cell(i, c))).join(","));
  saveFile(
    `${file}.csv`,
    new Blob([`${lines.join("\r\n")}\r\n`], { type: "text/csv;charset=utf-8" }),
  );
}

// Every chart of the page in one archive.
function saveAllCharts() {
  const files = [...document.querySelectorAll("main figure")].flatMap((frame) => {
    const { file, picture } = savable.get(frame);
    return picture() ? [[`${file}.svg`, new TextEncoder().encode(standalone(picture()))]] : [];
  });
  saveFile("charts.zip", zipped(files));
}

const CRC = Uint32Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let bit = 0; bit < 8; bit++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c;
});
const checksum = (bytes) =>
  (bytes.reduce((c, byte) => CRC[(c ^ byte) & 255] ^ (c >>> 8), -1) ^ -1) >>> 0;

// A zip archive of files that are stored as they are.
function zipped(files) {
  const bytesOf = (...fields) =>
    fields.flatMap(([size, value]) => range(size).map((i) => (value / 2 ** (8 * i)) & 255));
  const [parts, entries] = [[], []];
  let at = 0;
  for (const [name, content] of files) {
    const title = new TextEncoder().encode(name);
    // names in UTF-8, no compression, the first day that the format knows
    const common = bytesOf(
      ...[[2, 20], [2, 2048], [2, 0], [2, 0], [2, 33], [4, checksum(content)]],
      ...[[4, content.length], [4, content.length], [2, title.length], [2, 0]],
    );
    const local = [...bytesOf([4, 0x04034b50]), ...common, ...title];
    entries.push([
      ...bytesOf([4, 0x02014b50], [2, 20]),
      ...common,
      ...bytesOf([2, 0], [2, 0], [2, 0], [4, 0], [4, at]),
      ...title,
    ]);
    parts.push(Uint8Array.from(local), content);
    at += local.length + content.length;
  }
  const directory = Uint8Array.from(entries.flat());
  const count = files.length;
  const end = bytesOf(
    ...[[4, 0x06054b50], [2, 0], [2, 0], [2, count], [2, count]],
    ...[[4, directory.length], [4, at], [2, 0]],
  );
  return new Blob([...parts, directory, Uint8Array.from(end)], { type: "application/zip" });
}
