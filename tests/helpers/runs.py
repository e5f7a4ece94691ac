"""Folders as a run leaves them."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datassay.commands.report.command import ReportSettings
from datassay.commands.report.job import run


def write_run(folder, n=30, seed=0, noise=0.1, names=("cat", "dog"), shift=0, **facts):
    """A folder as `score` leaves it: one signal for all seeds, noise of its own."""
    signal, own = np.random.default_rng(99), np.random.default_rng(seed)
    y, information = np.arange(n) % 2, np.exp(signal.normal(size=n))
    score = np.linspace(-1, 1, n) + noise * own.normal(size=n)
    table = {
        "id": [f"s{i + shift}" for i in range(n)],
        "label": y,
        "class_name": [names[k] for k in y],
        "suggested_label": [names[1 - k] for k in y],
        "is_issue": score > 0.5,
        "label_issue_score": score,
        "information": information * np.exp(noise * own.normal(size=n)),
    }
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(table), folder / "scores.parquet")
    facts = {"Data": "pets: 30", "Model": "mlp", "Seed": str(seed), "Command": "x"} | facts
    (folder / "summary.json").write_text(json.dumps({"facts": facts}))
    return folder


def compared(folders):
    return run(ReportSettings(tuple(folders)))
