"""Load the tables that ship with the package; README.md here lists sources and licenses."""

import csv
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch


def load_us_employment() -> Bunch:
    """Load monthly US employment in 15 sectors, 2006 to 2015 (public domain).

    The series are levels with strong trends, so analyze changes, such as differences of
    logarithms.

    Returns
    -------
    Bunch
        ``data``, ndarray of shape (120, 15): thousands of jobs, seasonally adjusted;
        ``feature_names``, list of str: the sectors;
        ``dates``, list of str: the months as ``'YYYY-MM'``;
        ``DESCR``, str: description, source and license.

    Examples
    --------
    >>> from ebcd.datasets import load_us_employment
    >>> jobs = load_us_employment()
    >>> jobs.data.shape
    (120, 15)
    >>> jobs.dates[0], jobs.dates[-1]
    ('2006-01', '2015-12')
    >>> jobs.feature_names[:2]
    ['mining_and_logging', 'construction']
    """
    names, dates, data, text = _read("us_employment")
    return Bunch(data=data, feature_names=names, dates=dates, DESCR=text)


def load_elnino() -> Bunch:
    """Load monthly Pacific sea surface temperatures, 1950 to 2010 (public domain).

    Each year is one curve over twelve months, so the table suits smooth components.

    Returns
    -------
    Bunch
        ``data``, ndarray of shape (61, 12): degrees Celsius, one row per year;
        ``feature_names``, list of str: the months;
        ``years``, list of int: the years;
        ``DESCR``, str: description, source and license.

    Examples
    --------
    >>> from ebcd.datasets import load_elnino
    >>> sea = load_elnino()
    >>> sea.data.shape
    (61, 12)
    >>> sea.years[0], sea.years[-1], sea.feature_names[0]
    (1950, 2010, 'Jan')
    """
    names, years, data, text = _read("elnino")
    return Bunch(data=data, feature_names=names, years=[int(year) for year in years], DESCR=text)


def load_pitprops() -> Bunch:
    """Load the correlations of 13 measurements on 180 pitprops (Jeffers 1967).

    Only the correlations were published, so fit with a method that takes a covariance.

    Returns
    -------
    Bunch
        ``correlation``, ndarray of shape (13, 13): the correlation matrix;
        ``feature_names``, list of str: the measurements;
        ``n_samples``, int: 180, the number of props measured;
        ``DESCR``, str: description, source and license.

    Examples
    --------
    >>> from ebcd.datasets import load_pitprops
    >>> props = load_pitprops()
    >>> props.correlation.shape, props.n_samples
    ((13, 13), 180)
    >>> props.feature_names[:3]
    ['topdiam', 'length', 'moist']
    """
    names, _, correlation, text = _read("pitprops")
    return Bunch(correlation=correlation, feature_names=names, n_samples=180, DESCR=text)


def _read(name: str) -> tuple[list[str], list[str], NDArray[np.float64], str]:
    """Return names of the columns, labels of the rows (first column), numbers and description."""
    text, description = (
        files(__package__).joinpath(f"{name}.{suffix}").read_text(encoding="utf-8")
        for suffix in ("csv", "md")
    )
    header, *rows = csv.reader(text.splitlines())
    numbers = np.array([[float(cell) for cell in row[1:]] for row in rows])
    return header[1:], [row[0] for row in rows], numbers, description
