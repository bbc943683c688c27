"""Recodings and swaps combined to reach a target, and what they cost."""

from rarecell.release.planner import ReleaseFrontier, ReleasePoint, plan_release
from rarecell.release.remainder import ReleaseTarget

__all__ = ["ReleaseFrontier", "ReleasePoint", "ReleaseTarget", "plan_release"]
