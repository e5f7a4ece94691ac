"""Peak memory: of loading tables of text, and of collecting and scoring all of digits.

Every case runs in a fresh process; the peak is the kernel's count, the program itself included.
Loading: (peak - peak of a table of ten rows of that kind) / bytes of the text, the numbers that
`load` returns apart where they take more than the text. Digits: 1797 samples x 10 outputs; the
dense kernel alone would be 2.6 GB.
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
from bench.data import built_in
from bench.frame import Case, Options, Row, Task
from bench.run import fresh
from bench.stats import memory

from datassay.collect import collect
from datassay.data import load
from datassay.models import build_model
from datassay.score import label_issues, leave_one_out, sample_information

FORMS = {
    "auto": {},
    "primal, 1000 coordinates a tensor": {"projection": 1000, "outputs": "joint"},
}
# Rows, characters of a text, text columns, columns of categories, and the kind of file.
TABLES = {
    "2000 x 50 KB": (2000, 50_000, 1, 0, "csv"),
    "2000 x 4 x 13 KB": (2000, 13_000, 4, 0, "csv"),
    "2000 x 50 KB in Parquet": (2000, 50_000, 1, 0, "parquet"),
    "20 000 x 1 KB": (20_000, 1000, 1, 0, "csv"),
    "one row of 10 MB": (10_000, 1000, 1, 0, "long.csv"),
    "300 categories x 20 000": (20_000, 0, 0, 300, "csv"),
}


def write(name: str, path: Path, few: bool) -> None:
    """A table of that shape, or of its first ten rows; its text is of 5000 words."""
    n, length, texts, categories, kind = TABLES[name]
    n, draw = 10 if few else n, random.Random(0)
    words = [f"word{i}" for i in range(5000)]
    columns = {"label": pa.array([f"class{i % 2}" for i in range(n)])}
    for t in range(texts):
        size = [length] * n if few or "long" not in kind else [10_000_000, *[length] * (n - 1)]
        lines = (" ".join(draw.choices(words, k=s // 9)) for s in size)
        columns[f"text{t}"] = pa.array(lines, pa.large_string())
    for c in range(categories):
        columns[f"kind{c}"] = pa.array([f"value{draw.randrange(5)}" for _ in range(n)])
    table = pa.table(columns)
    csv.write_csv(table, path) if path.suffix == ".csv" else pq.write_table(table, path)


def mib_of_numbers(path: Path) -> float:
    return sum(s.x.nbytes for s in load(path, target="label")) / 2**20


def loading(name: str, options: Options) -> dict[str, float]:
    peaks, x = {}, 0.0
    for few in (True, False):
        path = options.work / f"{few}.{TABLES[name][-1]}"
        fresh(write, name, path, few)
        x, peaks[few] = fresh(mib_of_numbers, path)
    size = path.stat().st_size / 2**20
    if path.suffix == ".parquet":
        size = pq.read_table(path).nbytes / 2**20
    share = (peaks[False] - peaks[True] - (x if x > size else 0.0)) / size
    return {"text_mib": size, "x_mib": x, "peak_mib": peaks[False], "ten_rows_mib": peaks[True],
            "by_text": share}  # fmt: skip


def scoring(form: dict, options: Options) -> dict[str, object]:
    everything = built_in("digits", 0)
    base = memory("VmHWM")
    lin = collect(build_model("mlp", everything), everything, **form)
    sample_information(lin, loo=leave_one_out(lin))
    label_issues(lin)
    planned = lin.form.peak_bytes / 2**20
    return {"n": len(everything), "k": 10, "form": lin.form.summary, "imports_mib": base,
            "planned_mib": planned}  # fmt: skip


def rows(lines: dict[str, dict]) -> list[Row]:
    what = "Digits, 1797 samples x 10 outputs: peak memory of collecting and scoring"
    return [Row(what, f"{lines['memory/digits auto']['peak_mib']:.0f} MiB")]


TASK = Task(
    measure="peak memory of loading and of scoring",
    cases={
        **{f"digits {name}": Case(partial(scoring, f), fresh=True) for name, f in FORMS.items()},
        **{f"load {name}": Case(partial(loading, name)) for name in TABLES},
    },
    lines="memory/",
    rows=rows,
)
