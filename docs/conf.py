"""Sphinx configuration: works from disk, without the network."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import rarecell

project = "rarecell"
author = "The rarecell authors"
copyright = "2026, the rarecell authors"
release = rarecell.__version__

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
# Mathematics is written so that it reads without MathJax; no address outside the page is asked for.
mathjax_path = ""

html_theme = "alabaster"
html_title = f"rarecell {release}"
html_theme_options = {"description": "Who could be recognised in this file?", "fixed_sidebar": True, "page_width": "60em"}
html_show_sourcelink = False
html_copy_source = False
