"""Sphinx configuration of the site. `docs.site.build` stages its source and passes the version."""

from __future__ import annotations

from pathlib import Path

from stanchion import __version__
from stanchion.core.project import HOME

project = "Stanchion"
copyright = "the authors of Stanchion"
version = ".".join(__version__.split(".")[:2])
release = __version__

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
nitpicky = True
smartquotes = False  # searches have straight ones

html_theme = "pydata_sphinx_theme"
html_title = "Stanchion"
html_static_path = [str(Path(__file__).parent / "static")]
html_css_files = ["stanchion.css"]
html_search_scorer = str(Path(__file__).parent / "scorer.js")
html_show_sourcelink = False
html_copy_source = False
html_last_updated_fmt = None
html_theme_options = {
    "icon_links": [{"name": "GitHub", "url": HOME, "icon": "fa-brands fa-github"}],
    "navbar_end": ["version-switcher", "theme-switcher", "navbar-icon-links"],
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "show_toc_level": 2,
    "switcher": {"json_url": "../versions.json", "version_match": version},
    "check_switcher": False,
}
"""`versions.json` is next to the folders of the versions, so that old versions list newer ones."""
