"""Renumics Spotlight: the scores with each sample, and a short script that shows them."""

import pyarrow as pa

from datassay.commands.export import Export, Exported, Material, Parts, own_columns
from datassay.results import Meaning, with_meanings
from datassay_exports.flat_map import embedding

FILE, SCRIPT = "spotlight.parquet", "open_spotlight.py"
MEANINGS = {"embedding": Meaning("principal components of the inputs, at most 50")}
TEXT = '''"""Show the samples and their scores in Spotlight; pip install renumics-spotlight."""

from pathlib import Path

import pandas as pd
from renumics import spotlight
from renumics.spotlight.analysis.typing import DataIssue

frame = pd.read_parquet(Path(__file__).with_name("spotlight.parquet"))
suspects = [int(row) for row in frame.index[frame["is_issue"]]]
types = {"embedding": spotlight.Embedding, "image": spotlight.Image}
types = {name: kind for name, kind in types.items() if name in frame}
issues = [DataIssue("suspected labels", suspects, "high", ["label"])]
spotlight.show(frame, dtype=types, issues=issues)
'''


def export(material: Material) -> Exported:
    """Export one row per training sample, in the order of the scores."""
    train, _ = material.embedded
    numbers = embedding(train.x, are_columns=train.kind == "row")
    width = numbers.shape[1]
    lists = pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), width)
    table = material.scores.append_column("embedding", lists)
    for name, values in own_columns(train).items():
        unique_name = f"{name} (data)" if name in table.column_names else name
        if name == "image":
            values = pa.array([picture["bytes"] for picture in values.to_pylist()])
        table = table.append_column(unique_name, values)
    parts: Parts = {FILE: with_meanings(table, MEANINGS), SCRIPT: TEXT}
    return Exported(parts, f"pip install renumics-spotlight, then: python {material.out / SCRIPT}")


EXPORT = Export("spotlight", "Renumics Spotlight, samples with their scores.", export)
