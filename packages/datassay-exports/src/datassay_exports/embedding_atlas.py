"""Embedding Atlas: a point per sample, its neighbours the samples that support or oppose it."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datassay import SampleSet
from datassay.commands.export import Export, Exported, Material, own_columns
from datassay.data import reading
from datassay.report import column, labels
from datassay.results import Meaning, with_meanings
from datassay_exports.flat_map import embedding, flat_map

FILE = "embedding_atlas.parquet"
EFFECTS = "attribution.parquet"
NEIGHBORS = pa.struct([("ids", pa.list_(pa.int64())), ("distances", pa.list_(pa.float64()))])
Effects = dict[int, list[tuple[int, float]]]  # row → (other row, effect), the strongest first


def export(material: Material) -> Exported:
    """Export one row per sample: training samples with their scores, then validation samples."""
    train, val = material.embedded
    sets = [("training", train)] + ([] if val is None else [("validation", val)])
    x = np.concatenate([samples.x for _, samples in sets])
    positions, method = flat_map(embedding(x, are_columns=train.kind == "row"))
    parts = [_rows(material, samples, part) for part, samples in sets]
    if len({part.schema.field("id").type for part in parts}) > 1:  # names here, row numbers there
        parts = [part.set_column(0, "id", part["id"].cast(pa.string())) for part in parts]
    table = pa.concat_tables(parts, promote_options="default")
    effects = _effects(material, train, val)
    strongest = max((abs(e) for row in effects.values() for _, e in row), default=0.0)
    columns = {
        "x": pa.array(positions[:, 0].astype(float)),
        "y": pa.array(positions[:, 1].astype(float)),
        **_neighbors(effects, len(x), len(sets[-1][1]), strongest),
    }
    for name, values in columns.items():
        table = table.append_column(name, values)
    meanings = _meanings(method, strongest)
    return Exported({FILE: with_meanings(table, meanings)}, _instructions(material, table))


def _rows(material: Material, samples: SampleSet, set_name: str) -> pa.Table:
    """Return a table of id, part, label, scores if there are any, and the sample itself."""
    scores = material.scores
    if set_name == "training":
        table = scores.append_column("split", pa.array([set_name] * len(scores)))
    else:
        table = pa.table({
            "id": column(samples.ids),
            "label": column(samples.y),
            "split": pa.array([set_name] * len(samples)),
        })
        if "class_name" in scores.column_names:
            table = table.append_column("class_name", labels(samples, samples.y))
    used_names = {*scores.column_names, "x", "y", "neighbors", "neighbor_effects", "split"}
    for name, values in own_columns(samples).items():
        unique_name = f"{name} (data)" if name in used_names else name
        table = table.append_column(unique_name, values)
    return table


def _effects(material: Material, train: SampleSet, val: SampleSet | None) -> Effects:
    """Map each query to the samples that support or oppose it, and each sample to its queries."""
    path = material.run.folder / EFFECTS
    if not path.is_file():
        return {}
    with reading(path), pq.ParquetFile(path) as file:
        records = file.read(["query", "query_id", "id", "effect"]).to_pylist()
    ids = (train if val is None else val).ids.tolist()
    if any(ids[r["query"]] != r["query_id"] for r in records if r["query"] < len(ids)):
        return {}  # of held-out samples that are not read again
    rows = {sample_id: row for row, sample_id in enumerate(train.ids.tolist())}
    n_before = 0 if val is None else len(train)
    effects: Effects = defaultdict(list)
    for record in records:
        query, row = n_before + record["query"], rows[record["id"]]
        effects[query].append((row, record["effect"]))
        if val is not None:
            effects[row].append((query, record["effect"]))
    return {row: sorted(pairs, key=lambda pair: -abs(pair[1])) for row, pairs in effects.items()}


def _neighbors(effects: Effects, n: int, n_queries: int, strongest: float) -> dict[str, pa.Array]:
    """Return lists of equal length, as the tool needs: the row itself fills them, at distance 0."""
    scale = strongest or 1.0
    queries = range(n - n_queries, n)
    width = 1 + max((len(effects.get(row, ())) for row in queries), default=0)
    neighbors, signed = [], []
    for row in range(n):
        related = effects.get(row, [])[: width - 1]
        n_fill = width - len(related)
        ids = [row] * n_fill + [related_row for related_row, _ in related]
        distances = [0.0] * n_fill + [1 - abs(effect) / scale for _, effect in related]
        neighbors.append({"ids": ids, "distances": distances})
        signed.append([None] * n_fill + [effect for _, effect in related])
    return {
        "neighbors": pa.array(neighbors, NEIGHBORS),
        "neighbor_effects": pa.array(signed, pa.list_(pa.float64())),
    }


def _meanings(method: str, strongest: float) -> dict[str, Meaning]:
    return {
        "split": Meaning("training or validation; scores are of training samples"),
        "x": Meaning(f"map coordinate: {method}"),
        "y": Meaning(f"map coordinate: {method}"),
        "neighbors": Meaning(
            "attribution: of a query the training samples that raise and lower its measure most, "
            "of a training sample the queries that it does that to; ids are rows of this table, "
            f"distances are 1 - |effect| / {strongest:.6g}; the row itself fills the lists",
            "share of the strongest effect",
            "0: the strongest effect; near 1: hardly any",
        ),
        "neighbor_effects": Meaning(
            "the effects of the same neighbours; null of the row itself",
            "of the query's measure",
            "above 0: the training sample's presence raises it",
        ),
    }


def _instructions(material: Material, table: pa.Table) -> str:
    options = next(
        (f" --{name} {name}" for name in ("image", "text") if name in table.schema.names), ""
    )
    return (
        "pip install embedding-atlas, then: embedding-atlas "
        f"{material.out / FILE} --x x --y y --neighbors neighbors{options}"
    )


EXPORT = Export("embedding-atlas", "Embedding Atlas, a map with the effects as neighbours.", export)
