"""What will a run cost? An estimate before it starts."""

from __future__ import annotations

from rarecell.machine.memory import MemoryLimit, gigabytes
from rarecell.run import model_choice
from rarecell.run.assessment import read
from rarecell.run.config import RunConfig
from rarecell.search import estimate_exact


def forecast(config: RunConfig) -> str:
    """Cells, memory and time that a run will need."""
    data = read(config)
    table = model_choice.with_resolutions(data.table(), config.resolution)
    cost = estimate_exact(table, max_clique=config.max_clique)
    limit = MemoryLimit.of(config.memory)
    needed = limit.needed(model_choice.size_of(table, has_swaps=config.protect is not None))
    return "\n".join(
        [
            *data.summary_lines(),
            str(table),
            f"Vertices of the model: {', '.join(table.vertex_names)}.",
            f"Exact search: {cost}.",
            f"Memory: about {gigabytes(needed)} at the peak; {gigabytes(limit.total)} may be used.",
        ]
    )
