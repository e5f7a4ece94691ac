"""Peak memory of collecting and scoring all of digits, 1797 samples x 10 outputs.

The peak is the kernel's count, the program itself included; the dense kernel alone would be 2.6 GB.
"""

from functools import partial

from bench.data import built_in
from bench.frame import Case, Options, Row, Task
from bench.stats import memory

from datassay.collect import collect
from datassay.models import build_model
from datassay.score import label_issues, leave_one_out, sample_information

FORMS = {
    "auto": {},
    "primal, 1000 coordinates a tensor": {"projection": 1000, "outputs": "joint"},
}


def scoring(form: dict, options: Options) -> dict[str, object]:
    everything = built_in("digits", 0)
    base = memory("VmHWM")
    lin = collect(build_model("mlp", everything), everything, **form)
    sample_information(lin, loo=leave_one_out(lin))
    label_issues(lin)
    planned = lin.form.peak_bytes / 2**20
    return {"n": len(everything), "k": 10, "form": lin.form.summary, "imports_mib": base,
            "planned_mib": planned}  # fmt: skip


def rows(lines: dict[str, dict]) -> Row:
    what = "Digits, 1797 samples x 10 outputs: peak memory of collecting and scoring"
    return Row(what, f"{lines['memory/digits auto']['peak_mib']:.0f} MiB")


TASK = Task(
    measure="peak memory of scoring",
    cases={
        **{f"digits {name}": Case(partial(scoring, f), fresh=True) for name, f in FORMS.items()},
    },
    lines="memory/",
    rows=rows,
)
