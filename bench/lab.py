"""The lab at its default parameters: does every statement hold, and how long does each take?

`python lab.py` runs all of them, `python lab.py xavier gan` some.
"""

import sys
import tempfile
from pathlib import Path

from record import record

from datassay.lab.run import chosen, run_lab

# Beside the one number: what `papers/README.md` quotes.
LAWS = ("equations", "noise", "error", "spread", "right", "laws")
WHOLE = {"pde-discovery": ("data", "forms", *LAWS), "simulated-laws": LAWS}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for found in run_lab(chosen(sys.argv[1:] or ["all"], [], 0), Path(folder)):
            if found.agreement is None:
                raise SystemExit(f"{found.name}: {found.problem}")
            record(
                f"lab/{found.name}",
                what=found.agreement.what,
                value=found.agreement.value,
                kind=found.agreement.kind,
                limit=found.agreement.limit,
                holds=found.holds,
                seconds=found.seconds,
                **{k: found.values[k] for k in WHOLE.get(found.name, ())},
            )
