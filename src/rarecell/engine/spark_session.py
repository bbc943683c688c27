"""How is Spark started so that nobody else can look in, and how does it report what went wrong?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from rarecell.errors import EngineFailed, RarecellError

_P = ParamSpec("_P")
_T = TypeVar("_T")


def spark_job(work: str) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Turn what Spark raises into one paragraph, without the values that its own messages quote."""

    def wrapped(method: Callable[_P, _T]) -> Callable[_P, _T]:
        @wraps(method)
        def attempt(*arguments: _P.args, **options: _P.kwargs) -> _T:
            try:
                return method(*arguments, **options)
            except RarecellError:
                raise
            except Exception as problem:
                if not _is_of_spark(problem):
                    raise
                raise EngineFailed.during("Spark", work, _reason(problem)) from None

        return attempt

    return wrapped


def _is_of_spark(problem: BaseException) -> bool:
    of_spark = type(problem).__module__.split(".")[0] in ("pyspark", "py4j", "grpc") or isinstance(problem, ConnectionError)
    return of_spark or (problem.__cause__ is not None and _is_of_spark(problem.__cause__))


def _reason(problem: Exception) -> str:
    text = str(problem)
    times = re.search(r"failed (\d+) times", text)
    if isinstance(problem, ConnectionError) or "stopped SparkContext" in text or "SparkContext was shut down" in text:
        return "its session has ended"
    if any(sign in text for sign in ("ExecutorLostFailure", "FetchFailed", "Master removed our application")):
        return "its executors were lost again and again"
    if times:
        return f"a task failed {times[1]} times"
    condition = getattr(problem, "getCondition", lambda: None)()
    return str(condition or type(problem).__name__)


def new_session() -> Any:
    """Start a session for this program."""
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("rarecell")
    for name, value in private_settings(dict(SparkConf().getAll())).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def private_settings(chosen: Mapping[str, str]) -> dict[str, str]:
    """Settings that keep others out of a new Spark session, except where the user has chosen otherwise.

    Spark's own web page shows queries and plans to anyone, without a password, so it is turned off. A session on this
    computer alone listens only on the loopback address.
    """
    settings = {"spark.ui.enabled": "false"}
    if chosen.get("spark.master", "local").startswith("local") and "spark.remote" not in chosen:
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return {name: value for name, value in settings.items() if name not in chosen}
