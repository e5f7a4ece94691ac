"""The lab at its default parameters: does every statement hold, and how long does each take?

Five seeds each; value and seconds are those of seed 0, the range is that of all seeds.
"""

from functools import partial

from bench.frame import Case, Options, Row, Task

SEEDS = 5
# Besides the one number: what `papers/README.md` quotes.
LAWS = ("equations", "noise", "error", "spread", "right", "laws")
WHOLE = {"pde-discovery": ("data", "forms", *LAWS), "simulated-laws": LAWS}


def measured(name: str, options: Options) -> dict[str, object]:
    from datassay_lab import chosen, run_lab

    results = [
        result
        for seed in range(SEEDS)
        for result in run_lab(chosen([name], [], seed), options.work / f"{name} {seed}")
    ]
    first, values = results[0], [f.agreement.value for f in results]
    return {
        "what": first.agreement.what, "value": values[0], "range": [min(values), max(values)],
        "seeds": SEEDS, "kind": first.agreement.kind, "limit": first.agreement.limit,
        "holds": all(f.holds for f in results), "seconds": first.seconds,
        **{k: first.values[k] for k in WHOLE.get(name, ())},
    }  # fmt: skip


def _cases() -> dict[str, Case]:
    try:
        from datassay_lab import chosen
    except ImportError:  # its own distribution, not installed
        return {}
    return {
        experiment.name: Case(partial(measured, experiment.name))
        for experiment, _ in chosen(["all"], [], 0)
    }


def rows(lines: dict[str, dict]) -> list[Row]:
    every = [line for name, line in lines.items() if name.startswith("lab/")]
    errors = [f"{e[0][1]:.2f}" for e in lines["lab/pde-discovery"]["error"]]
    seconds = [x["seconds"] for x in every]
    return [
        Row(
            f"The course (S2): {len(every)} experiments, {every[0]['seeds']} seeds each: "
            "statements that hold with all; slowest experiment, all of them once",
            f"{sum(x['holds'] for x in every)}; {max(seconds):.0f} s, {sum(seconds):.0f} s",
        ),
        Row(
            "Laws of Burgers, KdV and Kuramoto-Sivashinsky from data with 1 % noise: mean error of "
            "the coefficients in %, weak form (S2's table)",
            f"{', '.join(errors)} (0.8, 7, 70)",
        ),
    ]


TASK = Task("statements of the course", _cases(), lines="lab/", rows=rows)
