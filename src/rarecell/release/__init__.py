"""Recodings and swaps together, towards a target, with what they cost."""

from rarecell.release.planner import ReleaseFrontier, ReleasePoint, plan_release
from rarecell.release.remainder import ReleaseTarget

__all__ = ["ReleaseFrontier", "ReleasePoint", "ReleaseTarget", "plan_release"]
