// What the person has chosen; charts that depend on it are drawn again when it changes.

const MOST_PICKED = 6;
const state = {
  picked: range(Math.min(header.components, MOST_PICKED)),
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

function setUpPicker() {
  const picker = byId("picker");
  const boxes = range(header.components).map((k) =>
    html("input", {
      type: "checkbox",
      value: k,
      "aria-label": `component ${k}`,
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
          title: `${percent(data.ratio[box.value])} of the variance`,
          class: isWeak(Number(box.value)) ? "weak" : "",
        },
        box,
        html("span", {}, box.value),
      ),
    );
  }
  picker.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const at = boxes.indexOf(document.activeElement);
    if (step && at >= 0) boxes[(at + step + boxes.length) % boxes.length].focus();
  });
  if (header.components > MOST_PICKED) {
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
