// Search for a feature: a list of matches, and a table of what was found of the chosen one.

const MATCHES = 12;

function setUpSearch() {
  const [input, list] = [byId("search"), byId("matches")];
  let found = [];
  let at = 0;
  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const mark = () => {
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === at)));
    if (found.length) input.setAttribute("aria-activedescendant", `match-${at}`);
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  const choose = (i) => {
    if (found[i] === undefined) return;
    input.value = data.names[found[i]];
    close();
    change({ feature: found[i] });
    byId("feature").scrollIntoView({ block: "nearest" });
  };
  const open = () => {
    found = matches(input.value);
    at = 0;
    list.replaceChildren(...matchItems(found, choose));
    list.hidden = input.value.trim() === "";
    input.setAttribute("aria-expanded", String(!list.hidden));
    mark();
  };
  input.addEventListener("input", () => {
    open();
    if (input.value === "") change({ feature: -1 });
  });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && !list.hidden) {
      at = (at + step + found.length) % Math.max(found.length, 1);
      mark();
    } else if (event.key === "Enter") choose(at);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    event.preventDefault();
    input.focus();
  });
  addChart(showFeature, "feature", "level");
}

function matchItems(found, choose) {
  if (!found.length) return [html("li", { class: "nothing" }, "No feature name contains this")];
  return found.map((j, i) => {
    const onpointerdown = (event) => {
      event.preventDefault(); // or the field would lose the focus and close the list
      choose(i);
    };
    return html("li", { id: `match-${i}`, role: "option", onpointerdown }, fullName(j));
  });
}

let lowered = null;
function matches(text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  lowered ||= data.names.map((name) => name.toLowerCase());
  const [starts, others] = [[], []];
  for (let j = 0; j < lowered.length && starts.length < MATCHES; j++) {
    const place = lowered[j].indexOf(wanted);
    if (place === 0) starts.push(j);
    else if (place > 0 && others.length < MATCHES) others.push(j);
  }
  return [...starts, ...others].slice(0, MATCHES);
}

// The name, with its number if other features have the same one.
let counts = null;
function fullName(j) {
  counts ||= data.names.reduce(
    (seen, name) => seen.set(name, (seen.get(name) || 0) + 1),
    new Map(),
  );
  return counts.get(data.names[j]) > 1 ? `${data.names[j]} (column ${j})` : data.names[j];
}

function showFeature() {
  const [box, j] = [byId("feature"), state.feature];
  box.hidden = j < 0;
  if (j < 0) return;
  const { loadings: loading, lower, upper, lfsr, sd } = data;
  const parts = Object.entries({ loading, lower, upper, lfsr, sd });
  const known = parts.filter(([, values]) => values);
  const onclick = () => {
    byId("search").value = "";
    change({ feature: -1 });
  };
  const heading = html("h2", {}, fullName(j));
  const close = html("button", { type: "button", onclick }, "Close");
  const heads = ["component", ...known.map(([name]) => name)];
  const cells = (k) => known.map(([, values], i) => format(values[k][j], i ? 3 : 4));
  const doubtful = (k) => (hasClearSign(k, j) ? null : "doubtful");
  box.replaceChildren(
    html("header", {}, heading, close),
    table(null, heads, header.components, cells, doubtful),
  );
}
