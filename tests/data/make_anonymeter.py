"""Write ``anonymeter.json``: small files with what anonymeter says of them.

Run this in an environment of its own: ``pip install anonymeter``, then ``python tests/data/make_anonymeter.py``.
Columns are ranks without gaps, so that both programs measure the same distances, and there are enough of them for ties to be rare.
"""

from __future__ import annotations

import json
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator
from anonymeter.stats.confidence import EvaluationResults

N_PEOPLE = 60
NAMES = ["a", "b", "c", "d"]


def ranks(values: np.ndarray) -> np.ndarray:
    return np.unique(values, return_inverse=True)[1].reshape(values.shape)


def main() -> None:
    warnings.simplefilter("ignore")
    files = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        people = rng.normal(size=(2 * N_PEOPLE, len(NAMES))) @ rng.normal(size=(len(NAMES), len(NAMES)))
        # The released file is the first half with noise: it copies these people and not the other half.
        released = people[:N_PEOPLE] + 0.4 * rng.normal(size=(N_PEOPLE, len(NAMES)))
        # anonymeter divides by the range of the two files it compares: the same in all, as the released file spans it.
        released[0], released[1] = people.min(axis=0) - 9, people.max(axis=0) + 9
        codes = np.column_stack([ranks(column) for column in np.vstack([people, released]).T])
        # Secrets are words with few values.
        secret = np.where(codes[:, 3] * 3 // len(codes) == 0, "low", np.where(codes[:, 3] % 2 == 0, "even", "odd"))
        parts = [
            pd.DataFrame(codes[begin : begin + N_PEOPLE, :3], columns=NAMES[:3]).assign(d=secret[begin : begin + N_PEOPLE])
            for begin in (0, N_PEOPLE, 2 * N_PEOPLE)
        ]
        original, control, synthetic = parts
        link = LinkabilityEvaluator(
            original, synthetic, (["a", "d"], ["b", "c"]), n_attacks=N_PEOPLE, n_neighbors=1, control=control
        )
        link.evaluate(n_jobs=1)
        guess = InferenceEvaluator(
            original, synthetic, ["a", "b", "c"], "d", regression=False, n_attacks=N_PEOPLE, control=control
        )
        guess.evaluate(n_jobs=1)
        found = {}
        for name, evaluator in (("linkability", link), ("inference", guess)):
            results: EvaluationResults = evaluator.results()
            risk = results.risk()
            found[name] = {
                "people": results.n_success,
                "control": results.n_control,
                "rate": results.attack_rate.value,
                "error": results.attack_rate.error,
                "risk": risk.value,
                "interval": list(risk.ci),
            }
        rows = {name: part.to_dict("list") for name, part in zip(("original", "control", "released"), parts, strict=True)}
        files.append({"rows": rows, "found": found})
    text = json.dumps(
        {"anonymeter": version("anonymeter"), "files": files}, separators=(",", ":"), default=lambda number: number.item()
    )
    Path(__file__).with_name("anonymeter.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
