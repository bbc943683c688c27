"""Why can two records of a finished run be swapped, or not?"""

from __future__ import annotations

import json
from pathlib import Path

from rarecell.engine.reach import read_small_text
from rarecell.errors import BadInput
from rarecell.model.decomposable import DecomposableModel
from rarecell.run import model_choice
from rarecell.run.assessment import read
from rarecell.run.config import RunConfig
from rarecell.swap.swappable import explain_pair as explain


def explain_pair(folder: str | Path, record: int, partner: int) -> str:
    """Why two records of a finished run can or cannot be swapped."""
    config = RunConfig.read(Path(folder) / "run.toml")
    table = model_choice.with_resolutions(read(config).table(records=True), config.resolution)
    try:
        stored = json.loads(read_small_text(Path(folder) / "model.json"))
    except (OSError, ValueError) as problem:
        raise BadInput(f"{folder} is not the folder of a finished run: {problem}.") from None
    return str(explain(table, DecomposableModel.from_dict(table, stored["best"]), record, partner))
