"""Sphinx configuration: `make docs`."""

import ebcd

project = "ebcd"
author = "the ebcd developers"
copyright = "2026, the ebcd developers"
version = release = ebcd.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # formulas without a network
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery"]  # examples are read from generated/gallery
templates_path = ["_templates"]
nitpicky = True  # an unresolved reference is a warning, and `make docs` makes warnings errors
nitpick_ignore_regex = [
    ("py:.*", r"(numpy|scipy|sklearn|collections|typing|abc|np)\..*"),
    ("py:class", r"ebcd\.priors\._kernels\..*"),  # of which families of priors are made
]

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # types are in the docstrings
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "generated/gallery",
    "filename_pattern": r"\.py$",  # every example is run, and an error in one ends the build
    "abort_on_example_error": True,
    "write_computation_times": False,
    "min_reported_time": 60,
    "download_all_examples": False,
    "thumbnail_size": (600, 420),
}

linkcheck_anchors = False  # pages that build their anchors by script have none to find
linkcheck_ignore = [r"https://doi\.org/.*"]  # publishers turn programs away

html_theme = "pydata_sphinx_theme"
html_title = f"ebcd {release}"
html_static_path = ["_static"]
html_css_files = ["ebcd.css"]
html_js_files = ["copy.js"]
html_show_sourcelink = False
# pages without pages below them have nothing to list at the left, and tables need the room
_WIDE = ("index", "generated/gallery/*", "benchmarks", "changelog", "paper", "architecture")
html_sidebars = {page: [] for page in _WIDE}
html_theme_options = {
    "show_toc_level": 2,
    "header_links_before_dropdown": 4,  # more wrap at 1280 pixels
    "navbar_end": ["theme-switcher"],
    "footer_end": [],
}
