"""What is a picture of the report?"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Picture:
    """An ``svg`` element, and what to look for in it."""

    svg: str
    caption: str
