"""Reports: a fitted model as a page that opens in any browser, and as Markdown."""

from ebcd.plots._fit import pca_variance_ratio
from ebcd.report._write import write_report

__all__ = ["pca_variance_ratio", "write_report"]
