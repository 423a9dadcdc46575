"""Find what moved US employment from 2006 to 2015, and draw it.

Draws figures of the documentation: `python examples/demo.py --output DIRECTORY`. `ebcd demo`
writes a report of the same data.
"""

import argparse
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ebcd

RECESSION = (2007 + 11 / 12, 2009 + 6 / 12)  # NBER: from December 2007 to June 2009
NEGATIVE, POSITIVE, UNCLEAR = "#d1661f", "#3b6fb6", "0.75"

# Our interpretation of the components.
MEANINGS = {
    "the business cycle": "The private economy rises and falls together, and the recession is "
    "its score.",
    "outside the cycle": "Three sectors that do not follow the cycle. The jump of May 2010 and "
    "the falls after it are temporary staff of the census, in government.",
    "mining": "Mining follows its own cycle, and durable goods and wholesale trade follow it a "
    "little: the fall of the oil price in 2015 is deeper here than the recession.",
}
NAMES = tuple(MEANINGS)


def employment_changes():
    """Monthly growth of employment in each sector, standardized.

    Returns
    -------
    X : ndarray of shape (119, 15)
        Log differences; every sector has mean zero and variance one.
    months, sectors : list of str
    """
    jobs = ebcd.datasets.load_us_employment()
    growth = np.diff(np.log(jobs.data), axis=0)
    X = (growth - growth.mean(axis=0)) / growth.std(axis=0)
    return X, jobs.dates[1:], [name.replace("_", " ") for name in jobs.feature_names]


def fit_components(X):
    """Fit three components; return the model and the scores of every month."""
    model = ebcd.EBCD(n_components=3)
    scores = model.fit_transform(X)
    return model, scores


def print_words(model, scores, months, sectors):
    """Describe each component: what it is, which sectors it moves, and when it was lowest."""
    print("\nIn words, with the sectors that have a clear sign (lfsr < 0.05):")
    for k, (name, meaning) in enumerate(MEANINGS.items()):
        features = model.top_features(k, len(sectors), feature_names=sectors)
        clear = ", ".join(feature.name for feature in features if feature.lfsr < 0.05)
        worst = ", ".join(months[i] for i in np.argsort(scores[:, k])[:3])
        share = 100 * model.explained_variance_ratio_[k]
        print(f"\n  component {k}: {name}, {share:.0f} % of the variance")
        for line in (meaning, f"Sectors: {clear}.", f"Lowest scores: {worst}."):
            print(textwrap.indent(textwrap.fill(line, 92), "    "))


def draw_employment(model, scores, months, sectors, path):
    """Draw loadings with credible intervals of 95%, and scores over time."""
    years = [int(month[:4]) + (int(month[5:]) - 1) / 12 for month in months]
    figure, axes = plt.subplots(
        2,
        3,
        figsize=(10.5, 7.0),
        height_ratios=(3, 2),
        sharex="row",
        sharey="row",
        layout="constrained",
    )
    for k, (top, bottom) in enumerate(axes.T):
        share = 100 * model.explained_variance_ratio_[k]
        top.set(title=f"{k}: {NAMES[k]}\n{share:.0f} % of the variance", xlabel="loading")
        draw_loadings(top, model, k)
        draw_scores(bottom, years, scores[:, k])
    order = np.argsort(model.components_[0])
    axes[0, 0].set_yticks(range(len(order)), [sectors[j] for j in order])
    axes[1, 0].set_ylabel("score")
    axes[1, 0].annotate("recession", (2009.6, -2.8), color="0.4")
    save(figure, path)


def draw_loadings(ax, model, k):
    """Draw one component, sectors in the order of the first component."""
    order = np.argsort(model.components_[0])
    loading = model.components_[k, order]
    lower, upper = model.credible_intervals()[:, k, order]
    colour = np.where(loading > 0, POSITIVE, NEGATIVE)
    colour = np.where(model.lfsr_[k, order] < 0.05, colour, UNCLEAR)
    places = np.arange(loading.size)
    ax.hlines(places, lower, upper, color=colour, linewidth=2)
    ax.scatter(loading, places, color=colour, s=28, zorder=3)
    ax.axvline(0, color="0.6", linewidth=0.8, zorder=0)
    ax.grid(axis="y", color="0.93")
    ax.set_axisbelow(True)


def draw_scores(ax, years, scores):
    """Draw the scores of one component over time, with the recession shaded."""
    ax.axvspan(*RECESSION, color="0.9")
    ax.axhline(0, color="0.6", linewidth=0.8)
    ax.plot(years, scores, color="0.2", linewidth=1.1)
    ax.set(xlabel="year", xlim=(2006, 2016), xticks=range(2006, 2016, 3))


def draw_shrinkage(path):
    """Draw the posterior mean against the observation for point-Laplace priors, with s = 1."""
    x = np.linspace(-8.0, 8.0, 801)
    by_weight = {rf"$\pi$ = {w:g}": (w, 2.0) for w in (0.01, 0.1, 0.5, 1.0)}
    by_scale = {f"$b$ = {b:g}": (0.1, b) for b in (0.5, 1.0, 2.0, 8.0)}
    panels = (
        ("The weight of the slab acts near 0\n(scale $b$ = 2)", by_weight),
        (r"Its scale acts far from 0" + "\n" + r"(weight $\pi$ = 0.1)", by_scale),
    )

    figure, axes = plt.subplots(1, 2, figsize=(9.0, 4.6), sharey=True, layout="constrained")
    for ax, (title, priors) in zip(axes, panels, strict=True):
        ax.axline((0, 0), slope=1, color="0.6", linewidth=1, linestyle="--", label="no shrinkage")
        colours = plt.get_cmap("viridis")(np.linspace(0.0, 0.85, len(priors)))
        for colour, (label, (weight, scale)) in zip(colours, priors.items(), strict=True):
            prior = ebcd.priors.make_prior("point_laplace", weight=weight, scale=scale)
            ax.plot(x, prior.shrink(x, 1.0), color=colour, label=label)
        ax.set(title=title, xlabel="observation $x$", xlim=(-8, 8), ylim=(-8, 8), aspect="equal")
        ax.legend(loc="upper left", frameon=False)
    axes[0].set_ylabel("posterior mean")
    figure.suptitle(r"Prior $(1-\pi)\,\delta_0 + \pi\,\mathrm{Laplace}(0, b)$, noise $s$ = 1")
    save(figure, path)


def save(figure, path, dpi=120):
    """Write the figure under a temporary name, then rename it: `path` is never half a picture."""
    part = path.with_name(f".{path.name}.part")
    figure.savefig(part, format="png", dpi=dpi)
    plt.close(figure)
    part.replace(path)


def main():
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="a directory")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)

    X, months, sectors = employment_changes()
    print(f"US employment, {months[0]} to {months[-1]}: what made 15 sectors grow and shrink?\n")
    model, scores = fit_components(X)
    print(model.summary(feature_names=sectors))
    print_words(model, scores, months, sectors)

    draw_employment(model, scores, months, sectors, output / "employment.png")
    draw_shrinkage(output / "shrinkage.png")
    print(f"\nLoadings and scores over time:   {output / 'employment.png'}")
    print(f"How point-Laplace priors shrink: {output / 'shrinkage.png'}")


if __name__ == "__main__":
    plt.switch_backend("agg")
    main()
