"""Peak memory: of loading tables of text, and of collecting and scoring all of digits.

Every case runs in a fresh process; the peak is the kernel's count, the program itself included.
Loading: (peak - peak of a table of ten rows of that kind) / bytes of the text, the numbers that
`load` returns apart where they take more than the text. Digits: 1797 samples x 10 outputs; the
dense kernel alone would be 2.6 GB.
"""

import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
from record import peak_mib, record

from datassay.machine import best_seconds

CASES = {
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


def read(path: str) -> None:
    """Load a table; print the peak of this process and the bytes of the numbers, in MiB."""
    from datassay.data import load

    sets = load(path, target="label")
    # Not getrusage: its peak may be that of the process that started this one.
    status = Path("/proc/self/status").read_text().split("VmHWM:")[1]
    x = sum(s.x.nbytes for s in sets)
    print(int(status.split()[0]) / 1024, x / 2**20)


def loading(name: str) -> None:
    *_, kind = TABLES[name]
    with tempfile.TemporaryDirectory() as folder:
        peaks = {}
        for few in (True, False):
            path = Path(folder) / f"{few}.{kind}"
            run("write", name, str(path), "few" * few)
            peaks[few] = run("read", str(path))
        size = path.stat().st_size / 2**20
        if path.suffix == ".parquet":
            size = pq.read_table(path).nbytes / 2**20
    (base, _), (peak, x) = peaks[True], peaks[False]
    apart = x if x > size else 0.0
    share = (peak - base - apart) / size
    record(
        f"memory/load {name}",
        text_mib=size,
        x_mib=x,
        peak_mib=peak,
        ten_rows_mib=base,
        by_text=share,
    )


def run(*command: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, __file__, *command], check=True, stdout=subprocess.PIPE, text=True
    )
    return [float(word) for word in done.stdout.split()]


def scoring(name: str) -> None:
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
    match sys.argv[1:]:
        case []:
            for name in [*CASES, *TABLES]:
                subprocess.run([sys.executable, __file__, name], check=True)
        case ["write", name, path, few]:
            write(name, Path(path), bool(few))
        case ["read", path]:
            read(path)
        case [name]:
            loading(name) if name in TABLES else scoring(name)
