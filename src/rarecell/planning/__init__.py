"""Recodings and swaps combined to reach a target, and what they cost."""

from rarecell.outcome.planned import ReleasePoint
from rarecell.planning.planner import ReleaseFrontier, ReleaseTarget, plan_release

__all__ = ["ReleaseFrontier", "ReleasePoint", "ReleaseTarget", "plan_release"]
