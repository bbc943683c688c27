"""Write ``pycanon.json``: small tables with what pycanon says of them.

pycanon pins old releases of numpy, pandas and scipy, so it is not among the packages of the tests. Run this in an environment of its
own: ``pip install pycanon``, then ``python tests/data/make_pycanon.py``.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from pycanon import anonymity


def main() -> None:
    tables = []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        n_records = int(rng.integers(6, 60))
        columns = {
            "town": rng.choice(["a", "b", "c"], n_records).tolist(),
            "sex": rng.integers(0, 2, n_records).tolist(),
            "illness": rng.choice(["cold", "flu", "none", "gout"], n_records, p=[0.4, 0.3, 0.2, 0.1]).tolist(),
            "visits": rng.integers(0, 8, n_records).tolist(),
        }
        frame, keys = pd.DataFrame(columns), ["town", "sex"]
        found = {
            column: {
                "l_diversity": int(anonymity.l_diversity(frame, keys, [column])),
                # pycanon rounds the exponential of the entropy down.
                "entropy_l_diversity_rounded_down": int(anonymity.entropy_l_diversity(frame, keys, [column])),
                "t_closeness": float(anonymity.t_closeness(frame, keys, [column])),
            }
            for column in ("illness", "visits")
        }
        tables.append({"columns": columns, "found": found})
    text = json.dumps({"pycanon": version("pycanon"), "keys": ["town", "sex"], "tables": tables}, separators=(",", ":"))
    Path(__file__).with_name("pycanon.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
