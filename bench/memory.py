"""Peak memory of collecting and scoring all of digits, 1797 samples x 10 outputs.

Every case runs in a fresh process; the peak is the kernel's count, the program itself included.
The dense kernel alone would be 2.6 GB.
"""

import subprocess
import sys

import numpy as np
from record import peak_mib, record

from datassay.machine import best_seconds

CASES = {
    "auto": {},
    "primal, 1000 coordinates a tensor": {"projection": 1000, "outputs": "joint"},
}


def case(name: str) -> None:
    import torch

    from datassay.collect import collect
    from datassay.data import SampleSet, load
    from datassay.models import build_model
    from datassay.score import label_issues, leave_one_out, sample_information

    train, val = load("digits")
    everything = SampleSet(
        x=np.concatenate([train.x, val.x]),
        y=np.concatenate([train.y, val.y]),
        ids=np.concatenate([train.ids, val.ids]),
        class_names=train.class_names,
        kind="image",
    )
    torch.zeros(1)
    base = peak_mib()
    model = build_model("mlp", everything)
    lin = collect(model, everything, **CASES[name])

    def scores():
        loo = leave_one_out(lin)
        sample_information(lin, loo=loo)
        label_issues(lin)

    seconds = best_seconds(scores, repeats=1, warm_up=0)
    record(
        f"memory/digits {name}",
        n=1797,
        k=10,
        form=lin.form.summary,
        seconds=seconds,
        peak_mib=peak_mib(),
        imports_mib=base,
        planned_mib=lin.form.peak_bytes / 2**20,
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        case(sys.argv[1])
    else:
        for name in CASES:
            subprocess.run([sys.executable, __file__, name], check=True)
