"""A dbt model in Python: the rules of a release profile, held against a table of the warehouse.

Put it into ``models/`` and name your table (in `dbt.ref`), keys and population below; ``tests/no_broken_rule.sql`` fails when a rule is broken. Needs an
adapter that runs Python models where rarecell is installed, such as dbt-duckdb.
"""

import json

import pyarrow as pa

import rarecell as rc

KEYS = ["age", "region", "sex"]
POPULATION = 3_000_000
PROFILE = "public"


def model(dbt, session):
    dbt.config(materialized="table")
    records = dbt.ref("people").arrow()
    records = records.read_all() if hasattr(records, "read_all") else records
    check = rc.check(records, keys=KEYS, population=POPULATION, profile=PROFILE)
    rules = [{"measured": None, "allowed": None, **rule} for rule in json.loads(json.dumps(check.to_dict()))["rules"]]
    columns = ("rule", "says", "measured", "allowed", "passed", "is_unsure", "sentence")
    return pa.table({name: [rule[name] for rule in rules] for name in columns} | {"verdict": [check.verdict] * len(rules)})
