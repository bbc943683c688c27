"""What is a picture of the report?"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Picture:
    """An ``svg`` element and what to see in it."""

    svg: str
    caption: str
