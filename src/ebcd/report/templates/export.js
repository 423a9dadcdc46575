// Charts and tables as files.

// A chart in its frame, with buttons that save it. `file` is the name without its ending, `source`
// gives the picture to save, by default the one that is shown.
function figure({ title, note = "", file, source }) {
  const plot = html("div", { class: "plot" });
  const picture = source || (() => plot.querySelector("svg"));
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
  const heading = html("b", {}, title, note ? html("span", { class: "soft" }, ` · ${note}`) : null);
  const frame = html("figure", { class: "card" }, html("figcaption", {}, heading, saves), plot);
  return { frame, plot };
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
  const ground = svg("rect", { width: "100%", height: "100%", fill: colour("--card") });
  copy.prepend(ground);
  copy.setAttribute("xmlns", SVG);
  copy.removeAttribute("tabindex");
  return new XMLSerializer().serializeToString(copy);
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

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
  const quote = (value) => escaped(safe(value));
  const lines = [columns.map(quote).join(",")];
  for (let i = 0; i < count; i++) lines.push(columns.map((_, c) => quote(cell(i, c))).join(","));
  saveFile(
    `${file}.csv`,
    new Blob([`${lines.join("\r\n")}\r\n`], { type: "text/csv;charset=utf-8" }),
  );
}
