*! rarecell 0.1.0: identification risk of the records in memory, and swaps that protect them
program rarecell
    version 16
    gettoken what 0 : 0, parse(" ,")
    if "`what'" == "assess" {
        syntax varlist [, POPulation(real 0) Weight(varname numeric) GENerate(name) THReshold(real 0.2) OUT(string) REPlace]
        if "`generate'" != "" {
            confirm new variable `generate'
        }
    }
    else if "`what'" == "protect" {
        syntax varlist [, POPulation(real 0) Weight(varname numeric) TOP(integer 0) RISKabove(real -1) ///
            THReshold(real 0.2) SEED(integer -1) OUT(string) REPlace]
        if `top' == 0 & `riskabove' < 0 {
            display as error "say which records to protect: riskabove(0.2) or top(20)"
            exit 198
        }
    }
    else {
        display as error "rarecell assess or rarecell protect; see help rarecell"
        exit 198
    }
    if `population' <= 0 & "`weight'" == "" {
        display as error "give the number of units the sample was drawn from, population(1000000), or weight(varname)"
        exit 198
    }
    python: rarecell_run("`what'")
end

version 16
python:
def rarecell_options(what, local):
    """The options of a command as rarecell's keywords; ``local`` reads a local macro."""
    import secrets

    options = {"keys": local("varlist").split(), "threshold": float(local("threshold"))}
    if float(local("population")) > 0:
        options["population"] = int(float(local("population")))
    if local("weight"):
        options["weight"] = local("weight")
    if what == "protect":
        if int(local("top")) > 0:
            options["top"] = int(local("top"))
        if float(local("riskabove")) >= 0:
            options["risk_above"] = float(local("riskabove"))
        if int(local("seed")) >= 0:
            options["seed"] = int(local("seed"))
        else:
            # What is in memory afterwards is a release: whoever could draw the same swaps could undo them.
            options["swap_seed"] = secrets.randbits(63)
    return options


def rarecell_table(names, data):
    """The variables in memory as a pyarrow table; codes stay codes, every kind of missing is missing."""
    import pyarrow as pa

    columns = {}
    for name in names:
        values = [row[0] if isinstance(row, (list, tuple)) else row for row in data.get(name, missingval=None)]
        if data.isVarTypeStr(name):
            columns[name] = pa.array([value or None for value in values], pa.string())
        elif all(value is None or float(value).is_integer() for value in values):
            columns[name] = pa.array([None if value is None else int(value) for value in values], pa.int64())
        else:
            columns[name] = pa.array(values, pa.float64())
    return pa.table(columns)


def rarecell_run(what):
    import sfi

    try:
        import rarecell as rc
    except ImportError:
        sfi.SFIToolkit.errprintln("The Python package rarecell was not found. In a terminal: pip install rarecell")
        sfi.SFIToolkit.exit(601)
        return
    options = rarecell_options(what, sfi.Macro.getLocal)
    names = options["keys"] + ([options["weight"]] if "weight" in options else [])
    try:
        result = getattr(rc, what)(rarecell_table(names, sfi.Data), **options)
        if sfi.Macro.getLocal("out"):
            result.save(sfi.Macro.getLocal("out"), overwrite=sfi.Macro.getLocal("replace") != "")
    except rc.RarecellError as problem:
        sfi.SFIToolkit.errprintln(str(problem))
        sfi.SFIToolkit.exit(459)
        return
    sfi.SFIToolkit.displayln(str(result))
    rarecell_store(what, result, options["keys"], sfi)


def rarecell_store(what, result, keys, sfi):
    """Put what was found into memory: the risk as a new variable, or the swapped values of the keys."""
    risk = result.summary.risk
    sfi.Scalar.setValue("r_sample_uniques", risk.sample_uniques)
    sfi.Scalar.setValue("r_population_uniques", risk.expected_population_uniques)
    sfi.Scalar.setValue("r_correct_matches", risk.expected_correct_matches)
    if what == "assess":
        new = sfi.Macro.getLocal("generate")
        if new:
            sfi.Data.addVarDouble(new)
            column = result.risk.to_frame().column("unique_probability").to_pylist()
            sfi.Data.store(new, None, [sfi.Missing.getValue() if value != value else value for value in column])
        return
    before = result.assessment.data.native_frame
    for key in keys:
        old, values = before.column(key).to_pylist(), result.frame.column(key).to_pylist()
        changed = [row for row, pair in enumerate(zip(old, values)) if pair[0] != pair[1]]
        if changed:
            sfi.Data.store(key, changed, [values[row] for row in changed])
end
