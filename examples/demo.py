"""Find the shocks in the employment of fifteen sectors, and draw how priors shrink.

Run it with `make demo`, or `python examples/demo.py --output DIRECTORY`.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ebcd


def employment_shocks():
    """Monthly employment growth in each sector, as a deviation from the sector's median.

    Returns
    -------
    x : ndarray of shape (n_months - 1, n_sectors)
        Deviations of the log difference.
    s : ndarray of shape (n_months - 1, n_sectors)
        Their usual size, one robust standard deviation per sector.
    months, sectors : list of str
    """
    jobs = ebcd.datasets.load_us_employment()
    growth = np.diff(np.log(jobs.data), axis=0)
    x = growth - np.median(growth, axis=0)
    s = np.broadcast_to(1.4826 * np.median(np.abs(x), axis=0), x.shape)
    return x, s, jobs.dates[1:], [name.replace("_", " ") for name in jobs.feature_names]


def print_shocks(n_largest=10):
    """Solve the normal-means problem of the employment data and say what was found."""
    x, s, months, sectors = employment_shocks()
    fit = ebcd.ebnm(x.ravel(), s.ravel(), prior="point_laplace")

    print("US employment: which sector-months are real shocks, and how large were they?\n")
    print(f"  data            {len(months)} months x {len(sectors)} sectors = {x.size} changes")
    print(f"  prior found     {fit.prior}")
    print(f"  log-likelihood  {fit.log_likelihood:.2f}")
    shocks = np.flatnonzero(fit.lfsr < 0.05)
    print(f"  shocks          {shocks.size} sector-months whose sign is known (lfsr < 0.05)")

    print(f"\nThe {n_largest} largest shocks (change against the sector's median month, in %)\n")
    width = max(map(len, sectors))
    print(f"  {'sector':<{width}}  month         raw  shrunken      sd     lfsr")
    for i in shocks[np.argsort(-np.abs(fit.mean[shocks]))][:n_largest]:
        month, sector = np.unravel_index(i, x.shape)
        print(
            f"  {sectors[sector]:<{width}}  {months[month]}  {100 * x.flat[i]:8.2f}"
            f"  {100 * fit.mean[i]:8.2f}  {100 * fit.sd[i]:6.2f}  {fit.lfsr[i]:7.1e}"
        )


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


def save(figure, path):
    """Write the figure under a temporary name, then rename it: `path` is never half a picture."""
    part = path.with_name(f".{path.name}.part")
    figure.savefig(part, format="png", dpi=150)
    plt.close(figure)
    part.replace(path)


def main():
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="a directory")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)

    print_shocks()
    figure = output / "shrinkage.png"
    draw_shrinkage(figure)
    print(f"\nHow point-Laplace priors shrink: {figure}")


if __name__ == "__main__":
    plt.switch_backend("agg")
    main()
