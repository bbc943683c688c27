"""An Airflow operator that stops a pipeline when a file does not keep the rules of its release profile.

    from rarecell_check import RarecellCheckOperator

    RarecellCheckOperator(task_id="disclosure", config="/data/run.toml", profile="public")

rarecell is called as a command, so that it may live in an environment of its own (``command``). A broken rule fails the task at once,
without another try; anything else that is wrong is tried again as Airflow is told. The check, which has no value of a record, is returned.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

try:
    from airflow.sdk import BaseOperator
    from airflow.sdk.exceptions import AirflowException, AirflowFailException
except ImportError:  # Airflow 2
    from airflow.exceptions import AirflowException, AirflowFailException
    from airflow.models import BaseOperator

BROKEN_RULE = 3


class RarecellCheckOperator(BaseOperator):
    """Run ``rarecell check`` and fail when the file does not pass.

    Parameters
    ----------
    config : str
        The ``run.toml`` that names the file, its keys and the population; names in it are relative to its folder.
    profile : str
        ``public``, ``scientific``, ``safe-centre``, ``clinical``, or a TOML file.
    command : sequence of str
        How rarecell is started.
    """

    template_fields: Sequence[str] = ("config", "profile")

    def __init__(self, *, config: str, profile: str = "public", command: Sequence[str] = ("rarecell",), **others: Any) -> None:
        super().__init__(**others)
        self.config = config
        self.profile = profile
        self.command = list(command)

    def execute(self, context: Any) -> dict[str, Any]:
        config = Path(self.config).resolve()
        words = [*self.command, "check", "--config", str(config), "--profile", self.profile, "--quiet", "--format", "json"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=config.parent)
        if done.returncode not in (0, BROKEN_RULE):
            raise AirflowException(done.stderr.strip() or f"rarecell ended with exit code {done.returncode}.")
        check: dict[str, Any] = json.loads(done.stdout)
        for rule in check["rules"]:
            self.log.info("%s: %s", rule["rule"], rule["sentence"])
        if done.returncode == BROKEN_RULE:
            broken = "; ".join(rule["sentence"] for rule in check["rules"] if not rule["passed"])
            raise AirflowFailException(f"{check['file']}: {check['verdict']}. {broken}")
        return check
