// What pointer and keyboard show of a chart: `text(i)` gives a heading and lines about item
// i, `place(i)` where in the chart it is, `nearest(x, y)` the item there, `cursor(i)` moves the mark
// (-1: none), `choose(i)` is what a click or Enter does.
function explore(chart, { count, text, place, nearest, cursor, choose }) {
  let current = -1;
  const box = () => chart.getBoundingClientRect();
  const ratio = () => box().width / chart.viewBox.baseVal.width;
  const show = (i, said) => {
    current = i;
    cursor(i);
    if (i < 0) return hideTip();
    const [x, y] = place(i);
    const frame = box();
    showTip(text(i), frame.left + x * ratio(), frame.top + y * ratio(), said);
  };
  const follow = (event) => {
    const frame = box();
    show(
      nearest((event.clientX - frame.left) / ratio(), (event.clientY - frame.top) / ratio()),
      false,
    );
  };
  chart.addEventListener("pointermove", follow);
  chart.addEventListener("pointerdown", follow);
  chart.addEventListener("pointerleave", () => show(-1));
  chart.addEventListener("blur", () => show(-1));
  chart.addEventListener("click", () => choose && current >= 0 && choose(current));
  chart.addEventListener("keydown", (event) => {
    const steps = {
      ArrowRight: 1,
      ArrowDown: 1,
      ArrowLeft: -1,
      ArrowUp: -1,
      PageDown: 10,
      PageUp: -10,
    };
    const ends = { Home: 0, End: count - 1 };
    if (event.key === "Escape") return show(-1);
    if ((event.key === "Enter" || event.key === " ") && choose && current >= 0) choose(current);
    else if (event.key in ends) show(ends[event.key], true);
    else if (event.key in steps)
      show(Math.min(Math.max(current + steps[event.key], 0), count - 1), true);
    else return undefined;
    return event.preventDefault();
  });
}

// Marks that follow: a circle at a point, or a band; each gives the function that moves it.
function circleCursor(chart, place, r = 4) {
  const circle = chart.appendChild(svg("circle", { class: "cursor", r, visibility: "hidden" }));
  return (i) => {
    const [cx, cy] = i < 0 ? [0, 0] : place(i);
    fill(circle, { cx, cy, visibility: i < 0 ? "hidden" : "visible" }, []);
  };
}

function bandCursor(chart, width, height, place) {
  const band = chart.appendChild(rect("row-cursor", 0, 0, width, height));
  const move = (i) => {
    const [x, y] = i < 0 ? [0, 0] : place(i);
    fill(band, { x, y, visibility: i < 0 ? "hidden" : "visible" }, []);
  };
  move(-1);
  return move;
}

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

function showTip([heading, ...lines], x, y, said) {
  const tip = byId("tip");
  tip.replaceChildren(html("b", {}, heading), ...lines.map((line) => html("div", {}, line)));
  tip.hidden = false;
  const [width, height] = [tip.offsetWidth, tip.offsetHeight];
  const left = x + 14 + width > innerWidth ? Math.max(x - width - 14, 4) : x + 14;
  const top = Math.min(Math.max(y - height - 10, 4), innerHeight - height - 4);
  tip.style.left = `${left}px`;
  tip.style.top = `${top}px`;
  if (said) say([heading, ...lines].join(", "));
}

function hideTip() {
  byId("tip").hidden = true;
}

function say(text) {
  byId("live").textContent = text;
}
