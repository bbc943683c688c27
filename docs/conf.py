"""Configuration of the documentation: Sphinx with MyST and numpydoc, nothing loaded from elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

import rarecell

project = "rarecell"
author = "the rarecell authors"
copyright = "the rarecell authors, Apache-2.0"
version = release = rarecell.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "offline_math",
    "from_the_package",
    "default_pictures",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "README.md"]
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence", "attrs_inline"]
myst_heading_anchors = 3

autosummary_generate = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "furo"
html_title = "rarecell"
html_static_path = ["static"]
html_css_files = ["rarecell.css"]
html_show_sourcelink = False
html_copy_source = False
# A page that was opened as a file may not read other pages, so that excerpts cannot be shown beside the results of a search.
html_show_search_summary = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0d6273",
        "color-brand-content": "#0d6273",
        "color-background-primary": "#fcfbf8",
        "color-background-secondary": "#f3f1ea",
        "font-stack": 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif',
    },
    "dark_css_variables": {
        "color-brand-primary": "#6fc3d1",
        "color-brand-content": "#6fc3d1",
        "color-background-primary": "#15191d",
        "color-background-secondary": "#1d2328",
    },
}
nitpicky = False
suppress_warnings = ["myst.header"]
