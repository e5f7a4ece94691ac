"""What a billion samples would take: an index of 100 000 texts, and 60 000 images, counted up.

Writes the tables of docs/billion-samples.md from the latest lines `index/texts`, `index/cnn` and
`scale/fashion mlp` of results.jsonl (`python -m bench table`); a test compares the page with them.
Nothing here was run at that size.
"""

from typing import NamedTuple

from bench.record import latest

MARKS = {
    "index": ("<!-- index -->", "<!-- /index -->"),
    "pass": ("<!-- extrapolated -->", "<!-- /extrapolated -->"),
}
N = 1_000_000_000
MEASURED_CORES = 2  # virtual cores of the machine that the seconds come from
FLOAT32, FLOAT64 = 4, 8
CHUNK_SAMPLES = 1024
BATCH = 10_000  # queries that are asked together
OBJECTS = 5  # a chunk of an index: rows, scales, lengths, ids, digests
# Named hardware with list prices in US dollars, each with its source on the page.
NODES, NODE_CORES, NODE_HOUR, NODE_GIGABITS = 20, 96, 4.08, 25.0  # c5.24xlarge
GIGABYTE_MONTH, PUT, GET = 0.023, 0.005 / 1000, 0.0004 / 1000  # S3 Standard
CORES, HOUR, BANDWIDTH = NODES * NODE_CORES, NODES * NODE_HOUR, NODES * NODE_GIGABITS * 1e9 / 8


class Stage(NamedTuple):
    """One pass over all samples."""

    name: str  # of the stage
    steps: tuple[str, ...]  # names of the progress steps that it is timed by
    reads: int  # passes over the stored features
    operations: str  # additions and multiplications per sample, as functions of p, k


STAGES = (
    Stage("Jacobian features, written once", ("collect Jacobians",), 0, "2 (1 + k) d, then 2 k p"),
    Stage("Gram matrix, added up as a tree", ("multiply features",), 1, "1.1 p²"),
    Stage("eigendecomposition, on one node", ("eigendecomposition",), 0, "10 p³ in all"),
    Stage("removals: rotate, then changes", ("leave each sample out",), 1, "2 p² + r p²"),
    Stage(
        "label issues: penalties, weighted Gram, noise estimated again",
        ("estimate label noise", "multiply weighted", "estimate label noise again"),
        3,
        "2 p² + 1.1 p² + p² + 132 k p",
    ),
    Stage("influence on 2048 partners", ("influence on others",), 1, "2 p² + 4096 p"),
)

# Names of steps in lines that earlier versions recorded.
EARLIER = {"decompose": "eigendecomposition", "judge the labels": "estimate label noise",
           "judge the labels again": "estimate label noise again"}  # fmt: skip


def markdown(heads: tuple[str, ...], rows: list[tuple]) -> str:
    lines = ["|".join(f" {cell} " if cell else " " for cell in line) for line in (heads, *rows)]
    return "\n".join(f"|{line}|" for line in (lines[0], "|".join(["---"] * len(heads)), *lines[1:]))


def stage_table(row: dict, p: int) -> str:
    """One line per stage: work, bytes read, hours of cores, hours and money on the cluster."""
    rows, hours_in_all, features = [], 0.0, FLOAT32 * p * N / 1e12
    stages = {EARLIER.get(step, step): seconds for step, seconds in row["stages"].items()}
    for stage in STAGES:
        once = stage.steps == ("eigendecomposition",)
        # Jacobians and the Gram matrix are of the validation samples too.
        samples = row["n"] + (row["m"] if stage.reads < 3 and stage.name[0] in "JG" else 0)
        each = sum(stages[step] for step in stage.steps) / (1 if once else samples)
        core_hours = MEASURED_CORES * each * (1 if once else N) / 3600
        hours = each / 3600 if once else core_hours / CORES
        hours_in_all += hours
        measured = f"{each:.1f} s in all" if once else f"{1e3 * each:.2f} ms"
        rows.append((
            stage.name, stage.operations, measured, f"{stage.reads * features:.0f} TB",
            f"{core_hours:,.3g}", f"{60 * hours:.1f} min", f"{hours * HOUR:.2f} $",
        ))  # fmt: skip
    rows.append((
        "in all", "", "", "", "", f"{60 * hours_in_all:.0f} min", f"{hours_in_all * HOUR:.0f} $",
    ))  # fmt: skip
    heads = ("stage", "operations per sample", "measured, two cores", "features read", "core hours")
    return markdown((*heads, f"{NODES} nodes", "cost"), rows)


def byte_table(p: int, k: int) -> str:
    """What lies where, and what moves."""
    features, matrix = FLOAT32 * p * N, FLOAT64 * p * p
    reads, workers = sum(stage.reads for stage in STAGES), CORES // MEASURED_CORES
    chunks = N // CHUNK_SAMPLES + 1
    rows = [
        (
            "features, float32",
            f"{features / 1e12:.1f} TB in {chunks / 1e6:.2f} million chunks of "
            f"{FLOAT32 * p * CHUNK_SAMPLES / 1e6:.1f} MB",
            f"{features / 1e9 * GIGABYTE_MONTH:.0f} $ a month, {chunks * PUT:.0f} $ to write",
        ),
        (
            "features read by all passes",
            f"{reads} x {features / 1e12:.1f} TB = {reads * features / 1e12:.0f} TB",
            f"{reads * features / BANDWIDTH / 60:.0f} min of {NODES} x {NODE_GIGABITS:.0f} Gbit/s; "
            f"{reads * chunks * GET:.1f} $",
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
    return markdown(("what", "bytes", "time or money"), rows)


def index_table(lines: dict[str, dict]) -> str:
    """One line per network: rows, queries, bytes, money; processor seconds split as its stages."""
    rows, widest = [], 0.0
    for name, what in {"index/texts": "texts, GPT", "index/cnn": "images, CNN"}.items():
        row = lines[name]
        share = row["stages"]["keep gradients"] / sum(row["stages"].values())
        gradient = share * row["build_processor_seconds"] / row["n"]
        compare = max(row["processor_ms_a_query"] / 1000 - gradient, 0.0) / row["n"]
        width = row["bytes_a_sample"]
        curvature, widest = row["bytes_on_disk"] - width * row["n"], max(widest, width)
        core_hours, size = gradient * N / 3600, width * N / 1e12
        hours, wanted = core_hours / CORES, compare * N * BATCH / 3600 / CORES
        rows.append((
            f"{what}, {row['parameters']:,} weights, {row['bytes_a_sample']:,} bytes",
            f"{1e3 * gradient:.2f} ms", f"{core_hours:,.0f}",
            f"{60 * hours:.0f} min, {hours * HOUR:.0f} $",
            f"{60 * wanted:.0f} min, {wanted * HOUR:.0f} $",
            f"{size:.1f} TB, and {curvature / 1e6:.0f} MB once",
            f"{size * 1000 * GIGABYTE_MONTH:.0f} $",
        ))  # fmt: skip
    objects, seconds = N / CHUNK_SAMPLES * OBJECTS, widest * N / BANDWIDTH
    heads = ("index of", "a row, one core", "rows: core hours", "time, cost",
             f"{BATCH:,} queries together: time, cost", "bytes", "a month")  # fmt: skip
    return (
        f"{markdown(heads, rows)}\n\n"
        f"{objects / 1e6:.1f} million objects, {objects * PUT:.0f} $ to write; "
        f"read once from the store by {NODES} nodes: {seconds:.0f} s, {objects * GET:.0f} $."
    )


def tables() -> dict[str, str]:
    """By the marks between which they stand: of an index, and of one pass that scores all."""
    lines = latest()
    row = lines["scale/fashion mlp n=60000"]
    p = int(row["form"].split(" x ")[1].split(",")[0])
    passes = f"{stage_table(row, p)}\n\n{byte_table(p, row['k'])}"
    return {"index": index_table(lines), "pass": passes}


def put(page: str) -> str:
    """The page with its tables."""
    for name, text in tables().items():
        start, end = MARKS[name]
        before, rest = page.split(start)
        page = f"{before}{start}\n{text}\n{end}{rest.split(end)[1]}"
    return page
