"""Why can two records of a finished run be swapped, or not?"""

from __future__ import annotations

import json
from pathlib import Path

from rarecell.engine.reach import read_small_text
from rarecell.errors import BadInput
from rarecell.model.decomposable import DecomposableModel
from rarecell.run import model_choice
from rarecell.run.assessment import read
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.swap.swappable import explain_pair as explain
from rarecell.swap.units import coded_columns


def explain_pair(folder: str | Path, record: int, partner: int) -> str:
    """Why two records of a finished run can or cannot be swapped."""
    config = RunConfig.read(Path(folder) / "run.toml")
    data = read(config)
    table = model_choice.with_resolutions(data.table(records=True), config.resolution)
    try:
        stored = json.loads(read_small_text(Path(folder) / "model.json"))
    except (OSError, ValueError) as problem:
        raise BadInput(f"{folder} is not the folder of a finished run: {problem}.") from None
    wanted = config.protect or ProtectConfig()
    model = DecomposableModel.from_dict(table, stored["best"])
    names = [name for margin in wanted.keep for name in margin if name not in table.vertex_names]
    return str(
        explain(table, model, record, partner, keep=wanted.keep, never_swap=wanted.never_swap, columns=coded_columns(data, names))
    )
