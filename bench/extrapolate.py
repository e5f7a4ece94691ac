"""What a billion samples would take: an index of 100 000 texts, and 60 000 images, counted up.

Writes the tables of docs/billion-samples.md from the latest lines `index/texts`, `index/cnn` and
`scale/fashion mlp` of results.jsonl; a test compares the page with them. Nothing here was run at
that size.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.record import latest

START, END = "<!-- extrapolated -->", "<!-- /extrapolated -->"
INDEX_START, INDEX_END = "<!-- index -->", "<!-- /index -->"
N = 1_000_000_000
MEASURED_CORES = 2  # virtual cores of the machine that the seconds come from
FLOAT32, FLOAT64 = 4, 8
CHUNK_SAMPLES = 1024


@dataclass(frozen=True)
class Cloud:
    """Named hardware with list prices in US dollars, each with its source on the page."""

    node_cores: int = 96  # c5.24xlarge
    node_hour: float = 4.08
    node_gigabits: float = 25.0
    gigabyte_month: float = 0.023  # S3 Standard
    put: float = 0.005 / 1000
    get: float = 0.0004 / 1000
    nodes: int = 20


@dataclass(frozen=True)
class Stage:
    """One pass over all samples.

    Attributes:
        name: of the stage.
        steps: names of the progress steps that it is timed by.
        reads: passes over the stored features.
        operations: additions and multiplications a sample, as functions of p, k.
    """

    name: str
    steps: tuple[str, ...]
    reads: int
    operations: str


STAGES = (
    Stage("Jacobian features, written once", ("collect Jacobians",), 0, "2 (1 + k) d, then 2 k p"),
    Stage("Gram matrix, added up as a tree", ("multiply features",), 1, "1.1 p²"),
    Stage("eigendecomposition, on one node", ("decompose",), 0, "10 p³ in all"),
    Stage("removals: rotate, then changes", ("leave each sample out",), 1, "2 p² + r p²"),
    Stage(
        "label issues: penalties, weighted Gram, judged again",
        ("judge the labels", "multiply weighted", "judge the labels again"),
        3,
        "2 p² + 1.1 p² + p² + 132 k p",
    ),
    Stage("influence on 2048 partners", ("influence on others",), 1, "2 p² + 4096 p"),
)


def seconds_each(row: dict, stage: Stage) -> float:
    """Seconds a sample on the measured machine; of the whole stage for the decomposition."""
    total = sum(row["stages"][step] for step in stage.steps)
    if stage.reads == 0 and stage.steps == ("decompose",):
        return total
    samples = row["n"] + (row["m"] if stage.reads < 3 and stage.name[0] in "JG" else 0)
    return total / samples


def stage_table(row: dict, p: int, cloud: Cloud) -> str:
    """One line a stage: work, bytes read, hours of cores, hours and money on the cluster."""
    lines = [
        "| stage | operations a sample | measured, two cores | features read | core hours | "
        f"{cloud.nodes} nodes | cost |",
        "|---|---|---|---|---|---|---|",
    ]
    features = FLOAT32 * p * N / 1e12
    hours_in_all = cost_in_all = 0.0
    for stage in STAGES:
        each = seconds_each(row, stage)
        once = stage.steps == ("decompose",)
        core_hours = MEASURED_CORES * each * (1 if once else N) / 3600
        hours = each / 3600 if once else core_hours / (cloud.nodes * cloud.node_cores)
        cost = hours * cloud.nodes * cloud.node_hour
        hours_in_all, cost_in_all = hours_in_all + hours, cost_in_all + cost
        lines.append(
            f"| {stage.name} | {stage.operations} | {measured(each, once)} | "
            f"{stage.reads * features:.0f} TB | {core_hours:,.3g} | "
            f"{60 * hours:.1f} min | {cost:.2f} $ |"
        )
    lines.append(f"| in all | | | | | {60 * hours_in_all:.0f} min | {cost_in_all:.0f} $ |")
    return "\n".join(lines)


def measured(each: float, once: bool) -> str:
    """Seconds as the table shows them."""
    return f"{each:.1f} s in all" if once else f"{1e3 * each:.2f} ms"


def byte_table(p: int, k: int, cloud: Cloud) -> str:
    """What lies where, and what moves."""
    features = FLOAT32 * p * N
    reads = sum(stage.reads for stage in STAGES)
    workers = cloud.nodes * cloud.node_cores // MEASURED_CORES
    bandwidth = cloud.nodes * cloud.node_gigabits * 1e9 / 8
    chunks = N // CHUNK_SAMPLES + 1
    matrix = FLOAT64 * p * p
    rows = [
        (
            "features, float32",
            f"{features / 1e12:.1f} TB in {chunks / 1e6:.2f} million chunks of "
            f"{FLOAT32 * p * CHUNK_SAMPLES / 1e6:.1f} MB",
            f"{features / 1e9 * cloud.gigabyte_month:.0f} $ a month, {chunks * cloud.put:.0f} $ to "
            "write",
        ),
        (
            "features read by all passes",
            f"{reads} x {features / 1e12:.1f} TB = {reads * features / 1e12:.0f} TB",
            f"{reads * features / bandwidth / 60:.0f} min of {cloud.nodes} x "
            f"{cloud.node_gigabits:.0f} Gbit/s; {reads * chunks * cloud.get:.1f} $",
        ),
        (
            "Gram matrices, one a worker, twice",
            f"2 x {workers} x {matrix / 1e6:.0f} MB = {2 * workers * matrix / 1e9:.0f} GB",
            "seconds",
        ),
        (
            "eigenvectors to every worker",
            f"{workers} x {matrix / 1e6:.0f} MB = {workers * matrix / 1e9:.0f} GB",
            "seconds",
        ),
        ("scores, 12 columns", f"{12 * FLOAT64 * N / 1e9:.0f} GB", "Parquet, by chunk"),
        ("outputs and targets", f"{2 * k * FLOAT64 * N / 1e9:.0f} GB", "with the chunks"),
    ]
    lines = ["| what | bytes | time or money |", "|---|---|---|"]
    return "\n".join(lines + [f"| {a} | {b} | {c} |" for a, b, c in rows])


INDEXED = {"index/texts": "texts, GPT", "index/cnn": "images, CNN"}
BATCH = 10_000  # queries that are asked together
OBJECTS = 5  # a chunk: rows, scales, lengths, ids, digests


@dataclass(frozen=True)
class IndexWork:
    """What an index of N samples takes, in hours and dollars.

    Attributes:
        gradient: processor seconds of one sample's row.
        compare: processor seconds of one query against one sample.
        width: bytes a sample.
        curvature: bytes that are kept once.
    """

    gradient: float
    compare: float
    width: float
    curvature: float

    @classmethod
    def of(cls, row: dict) -> IndexWork:
        """From a recorded index; its processor seconds are split as its stages' seconds were."""
        stages = row["stages"]
        share = stages["keep gradients"] / sum(stages.values())
        gradient = share * row["build_processor_seconds"] / row["n"]
        asked = row["processor_ms_a_query"] / 1000
        rows = row["bytes_a_sample"]
        kept = row["bytes_on_disk"] - rows * row["n"]
        return cls(gradient, max(asked - gradient, 0.0) / row["n"], rows, kept)


def index_table(rows: dict[str, dict], cloud: Cloud) -> str:
    """One line a network: rows, queries, bytes, money."""
    lines = [
        "| index of | a row, one core | rows: core hours | time, cost | "
        f"{BATCH:,} queries together: time, cost | bytes | a month |",
        "|---|---|---|---|---|---|---|",
    ]
    cores = cloud.nodes * cloud.node_cores
    hour = cloud.nodes * cloud.node_hour
    for name, what in INDEXED.items():
        row = rows[name]
        work = IndexWork.of(row)
        core_hours = work.gradient * N / 3600
        asked = work.compare * N * BATCH / 3600 / cores
        size = work.width * N / 1e12
        lines.append(
            f"| {what}, {row['parameters']:,} weights, {row['width']:,} numbers | "
            f"{1e3 * work.gradient:.2f} ms | {core_hours:,.0f} | "
            f"{60 * core_hours / cores:.0f} min, {core_hours / cores * hour:.0f} $ | "
            f"{60 * asked:.0f} min, {asked * hour:.0f} $ | {size:.1f} TB, and "
            f"{work.curvature / 1e6:.0f} MB once | {size * 1000 * cloud.gigabyte_month:.0f} $ |"
        )
    objects = N / CHUNK_SAMPLES * OBJECTS
    reading = max(IndexWork.of(rows[name]).width for name in INDEXED) * N
    seconds = reading / (cloud.nodes * cloud.node_gigabits * 1e9 / 8)
    lines += [
        "",
        f"{objects / 1e6:.1f} million objects, {objects * cloud.put:.0f} $ to write; "
        f"read once from the store by {cloud.nodes} nodes: {seconds:.0f} s, "
        f"{objects * cloud.get:.0f} $.",
    ]
    return "\n".join(lines)


def index_tables() -> str:
    """Of an index."""
    return index_table(latest(), Cloud())


def pass_tables() -> str:
    """Of one pass that scores all samples."""
    row, cloud = latest()["scale/fashion mlp n=60000"], Cloud()
    p = int(row["form"].split(" x ")[1].split(",")[0])
    return stage_table(row, p, cloud) + "\n\n" + byte_table(p, row["k"], cloud)


def put(page: str, start: str, end: str, text: str) -> str:
    """The page with a text between two marks."""
    before, rest = page.split(start)
    return f"{before}{start}\n{text}\n{end}{rest.split(end)[1]}"


def main() -> None:
    """Put the tables into the page."""
    file = Path(__file__).parents[1] / "docs" / "billion-samples.md"
    page = put(file.read_text(encoding="utf-8"), INDEX_START, INDEX_END, index_tables())
    file.write_text(put(page, START, END, pass_tables()), encoding="utf-8")


if __name__ == "__main__":
    main()
