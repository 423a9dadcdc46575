// Sets the page up and draws it.

function setUp() {
  const show = (id) => {
    byId(id).hidden = false;
  };
  show("tables");
  setUpBackground();
  if (header.components) {
    ["components", "heat", "variance"].forEach(show);
    addChart(() => document.querySelectorAll(".findings").forEach(arrange));
    setUpPicker();
    setUpLevel();
    setUpSearch();
    setUpBars();
    setUpHeatmap();
    addChart(fillVarianceTable, "names");
    addChart(drawVariance, "names");
  } else {
    document.querySelector(".tools").hidden = true;
  }
  if (data.scores && header.components && header.rows.shown) {
    show("scores");
    setUpScores();
  }
  if (header.priors.length) {
    ["priors", "with-priors"].forEach(show);
    addChart(drawPriors, "picked", "names", "unfolded");
  }
  if (data.path) addChart(drawTrace, "unfolded");
  byId("technical").addEventListener("toggle", () => change({ unfolded: byId("technical").open }));
  setUpTheme();
  setUpTables();
}

// Draw again when the width changes; a phone's height changes whenever it scrolls.
function watchWidth() {
  let [width, waiting] = [document.body.clientWidth, 0];
  addEventListener("resize", () => {
    if (document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    clearTimeout(waiting);
    waiting = setTimeout(drawAll, 80);
  });
  const root = document.documentElement;
  let theme = "";
  const drawOn = (paper) => {
    if (paper) theme = root.dataset.theme || "";
    root.dataset.theme = paper ? "light" : theme;
    root.classList.toggle("paper", paper);
    drawAll();
  };
  addEventListener("beforeprint", () => drawOn(true));
  addEventListener("afterprint", () => drawOn(false));
}

async function main() {
  await loadData();
  setUp();
  drawAll();
  watchWidth();
  document.documentElement.dataset.ready = "yes";
  // two frames later it is on the screen
  requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("ebcd-ready")));
}

main().catch((error) => {
  byId("failure").hidden = false;
  byId("failure").textContent =
    `The charts could not be drawn: ${error.message}. They need a browser from 2023 or later.`;
  console.error(error);
});
