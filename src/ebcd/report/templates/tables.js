// Every table of the page as a file.

function setUpTables() {
  const components = range(header.components);
  const heads = () => components.map((k) => state.names[k] || `component ${k + 1}`);
  const byFeature = (table) => [
    () => ["feature", ...heads()],
    data.names.length,
    (j, c) => (c ? Number(table[c - 1][j].toPrecision(header.digits)) : data.names[j]),
  ];
  const fit = data.path && [
    ["step", header.pathName],
    data.path.length,
    (i, c) => (c ? header.pathEnd + data.path[i] : i),
  ];
  const tables = header.components && {
    loadings: data.loadings && byFeature(data.loadings),
    sd: data.sd && byFeature(data.sd),
    lfsr: data.lfsr && byFeature(data.lfsr),
    lower: data.lower && byFeature(data.lower),
    upper: data.upper && byFeature(data.upper),
    scores: data.scores && [
      () => ["row", ...heads()],
      header.rows.shown,
      (i, c) => (c ? data.scores[c - 1][i] : (data.rows[i] ?? i)),
    ],
    explained_variance: [
      ["component", header.method, ...(data.pca ? ["PCA"] : [])],
      header.components,
      (k, c) => [heads()[k], data.ratio[k], data.pca?.[k] ?? ""][c],
    ],
    priors: header.priors.length && [
      ["component", "prior"],
      header.components,
      (k, c) => (c ? header.priors[k] : heads()[k]),
    ],
    shrinkage: data.estimate && [
      ["component", "estimate", "after_shrinkage", "prior_density"],
      header.components * data.estimate[0].length,
      (row, c) => {
        const [k, i] = [Math.floor(row / data.estimate[0].length), row % data.estimate[0].length];
        return [heads()[k], data.estimate[k][i], data.shrunk[k][i], data.density[k][i]][c];
      },
    ],
    stability: header.stability && [
      ["component", "found_again"],
      header.components,
      (k, c) => (c ? header.stability[k] : heads()[k]),
    ],
  };
  for (const [name, table] of Object.entries({ ...tables, fit })) {
    if (table)
      byId("downloads").append(
        html("button", { type: "button", onclick: () => saveTable(name, ...table) }, `${name}.csv`),
      );
  }
  byId("downloads").append(
    html("button", { type: "button", id: "all-charts", onclick: saveAllCharts }, "all charts (SVG, zip)"),
  );
  const ends = `lower and upper are the ends of a ${header.interval}${header.about}`;
  byId("precision").hidden = !header.components;
  byId("precision").textContent =
    `Loadings have ${header.digits} significant digits${data.lower ? `; ${ends}` : ""}. Charts and tables use the names that you give to components.`;
}
