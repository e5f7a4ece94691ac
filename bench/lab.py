"""The lab at its default parameters: does every statement hold, and how long does each take?

`python lab.py` runs all of them with five seeds each, `python lab.py xavier gan` some. Value and
seconds are those of seed 0, the range is that of all seeds.
"""

import sys
import tempfile
from pathlib import Path

from record import record

from datassay_lab import chosen, run_lab

SEEDS = 5
# Beside the one number: what `papers/README.md` quotes.
LAWS = ("equations", "noise", "error", "spread", "right", "laws")
WHOLE = {"pde-discovery": ("data", "forms", *LAWS), "simulated-laws": LAWS}


def measured(name: str) -> None:
    """Run one experiment with every seed and record it."""
    found = []
    for seed in range(SEEDS):
        with tempfile.TemporaryDirectory() as folder:
            found += run_lab(chosen([name], [], seed), Path(folder))
    first = found[0]
    values = [f.agreement.value for f in found]
    record(
        f"lab/{name}",
        what=first.agreement.what,
        value=values[0],
        range=[min(values), max(values)],
        seeds=SEEDS,
        kind=first.agreement.kind,
        limit=first.agreement.limit,
        holds=all(f.holds for f in found),
        seconds=first.seconds,
        **{k: first.values[k] for k in WHOLE.get(name, ())},
    )


if __name__ == "__main__":
    for experiment, _ in chosen(sys.argv[1:] or ["all"], [], 0):
        measured(experiment.name)
