"""Reports: a fitted model as a page that opens in any browser, and as Markdown."""

from ebcd.report._write import write_report

__all__ = ["write_report"]
