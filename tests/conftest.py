"""Settings for all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# The first call of a kernel compiles it, so no single example has a deadline; CI draws the same examples every time.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")
