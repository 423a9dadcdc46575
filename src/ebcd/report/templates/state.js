// What the person has chosen; charts that depend on it are drawn again when it changes.

const NAMES = `ebcd-names-${header.id}`;
const state = {
  picked: header.first,
  names: storedNames(), // that the person gave to components
  level: 0.05,
  feature: -1, // the one that was searched
};

const charts = []; // functions that draw, with the parts of the state they depend on

function addChart(draw, ...parts) {
  charts.push({ draw, parts });
}

function change(patch) {
  Object.assign(state, patch);
  for (const { draw, parts } of charts) if (parts.some((part) => part in patch)) draw();
}

function drawAll() {
  for (const { draw } of charts) draw();
}

// Names stay in the browser that they were given in; some browsers allow that for no file.
function storedNames() {
  try {
    return JSON.parse(localStorage.getItem(NAMES)) || {};
  } catch {
    return {};
  }
}

function rename(k, text) {
  const names = { ...state.names };
  if (text.trim()) names[k] = text.trim();
  else delete names[k];
  try {
    localStorage.setItem(NAMES, JSON.stringify(names));
  } catch {
    say("This browser cannot store names; they last until the page is closed");
  }
  change({ names });
}

// Names in the words of the summary, and in lists of components.
function showNames() {
  for (const node of document.querySelectorAll("[data-component]"))
    node.textContent = titled(Number(node.dataset.component));
  for (const option of document.querySelectorAll("option[data-of]"))
    option.textContent = option.dataset.before + called(Number(option.dataset.of));
}

const componentOptions = (chosen, value = (k) => k, before = "") =>
  range(header.components).map((k) =>
    html(
      "option",
      { value: value(k), selected: k === chosen, "data-of": k, "data-before": before },
      before + called(k),
    ),
  );

function setUpPicker() {
  const picker = byId("picker");
  const boxes = range(header.components).map((k) =>
    html("input", {
      type: "checkbox",
      value: k,
      "aria-label": `component ${k + 1}`,
      checked: state.picked.includes(k),
    }),
  );
  const read = () =>
    change({ picked: boxes.filter((box) => box.checked).map((box) => Number(box.value)) });
  for (const box of boxes) {
    box.addEventListener("change", read);
    picker.append(
      html(
        "label",
        {
          title: [
            `${percent(data.ratio[box.value])} of the variance`,
            ...(header.stability ? [foundAgain(box.value)] : []),
          ].join(", "),
          class: isWeak(Number(box.value)) ? "weak" : "",
        },
        box,
        html("span", {}, String(Number(box.value) + 1)),
      ),
    );
  }
  picker.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const at = boxes.indexOf(document.activeElement);
    if (step && at >= 0) boxes[(at + step + boxes.length) % boxes.length].focus();
  });
  addChart(showNames, "names");
  if (header.components > header.first.length) {
    const all = (on) => () => {
      boxes.forEach((box) => {
        box.checked = on;
      });
      read();
    };
    picker.append(
      html("button", { type: "button", onclick: all(true) }, "all"),
      html("button", { type: "button", onclick: all(false) }, "none"),
    );
  }
}

function setUpLevel() {
  if (!data.lfsr) {
    byId("level-label").hidden = true;
    return;
  }
  byId("level").addEventListener("input", (event) => {
    const level = event.target.valueAsNumber;
    if (level >= 0 && level <= 1) change({ level });
  });
}

function setUpTheme() {
  const root = document.documentElement;
  const dark = () =>
    (root.dataset.theme ||
      (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  byId("theme").addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    drawAll();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
}
