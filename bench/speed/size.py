"""What a command takes by the size of the data: processor time and peak memory, beside others.

Tables by rows, columns and classes, texts by their length, images by their side; each a command
line in a process of its own on one thread, from the program's start to its end. Baselines have the
same table in memory, their libraries loaded: cleanlab's Datalab on held-out probabilities of a
logistic regression, scikit-learn's exact and faiss' flat neighbours, each sample's 10.
`--set sizes=1000,2000` does some sizes.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from bench import commands
from bench.frame import Case, Options, Row, Task
from bench.run import fresh
from bench.stats import cost_of

ROWS = (1000, 2000, 4000, 8000, 16_000, 32_000, 64_000)
# What varies → sizes, and (file, seed, size) → the file.
SIZES: dict[str, tuple[Sequence[int], str, Callable[[Path, int, int], None]]] = {
    "rows": (ROWS, "csv", lambda f, s, n: commands.table(f, s, n, 20, 3)),
    "columns": ((20, 200, 2000), "csv", lambda f, s, n: commands.table(f, s, 2000, n, 3)),
    "classes": ((2, 20, 200), "csv", lambda f, s, n: commands.table(f, s, 6000, 20, n)),
    "words": ((5, 50, 200), "csv", lambda f, s, n: commands.texts(f, s, 500, n, 3)),
    "side": ((8, 16, 32), "npz", lambda f, s, n: commands.images(f, s, 2000, n, 5)),
}


def datalab(x: np.ndarray, y: np.ndarray) -> None:
    """Cleanlab's Datalab, on held-out probabilities and inputs."""
    from cleanlab import Datalab
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    model = LogisticRegression(max_iter=300)
    probabilities = cross_val_predict(model, x, y, cv=5, method="predict_proba")
    Datalab({"y": y}, label_name="y", verbosity=0).find_issues(features=x, pred_probs=probabilities)


def exact_neighbours(x: np.ndarray, y: np.ndarray) -> None:
    """scikit-learn's nearest neighbours of each sample."""
    from sklearn.neighbors import NearestNeighbors

    NearestNeighbors(n_neighbors=10, algorithm="brute").fit(x).kneighbors()


def flat_neighbours(x: np.ndarray, y: np.ndarray) -> None:
    """Faiss' exact nearest neighbours of each sample."""
    import faiss

    index = faiss.IndexFlatL2(x.shape[1])
    index.add(x.astype("float32"))
    index.search(x.astype("float32"), 10)


BASELINES = {"Datalab": datalab, "scikit-learn": exact_neighbours, "faiss": flat_neighbours}


def asked(name: str, file: Path) -> dict[str, float]:
    """What a baseline takes of a table, warmed up on its first rows."""
    frame = pd.read_csv(file)
    x, y = frame.drop(columns="target").to_numpy(), frame["target"].to_numpy()
    BASELINES[name](x[:300], y[:300])
    _, seconds, mib = cost_of(partial(BASELINES[name], x, y))
    return {"seconds": seconds, "mib": mib}


def measure(what: str, options: Options) -> Iterator[tuple[str, dict]]:
    """Measure `score` of each size; of rows also the baselines, and the growth from one to next."""
    sizes, ending, write = SIZES[what]
    taken = []
    for size in options.value("sizes", tuple(sizes)):
        file = options.work / f"{what}{size}.{ending}"
        write(file, options.seed, size)
        words = ["score", str(file), "--out", f"{what}{size}"]
        words += ["--target", "target"] if ending == "csv" else []
        _, seconds, held = commands.call(words, options.work)
        taken.append((size, seconds, held))
        line: dict[str, object] = {"seconds": seconds, "peak_mib": held / 2**20}
        if what == "rows":
            line["baselines"] = {name: fresh(asked, name, file)[0] for name in BASELINES}
        yield f"{what} {size}", line
    pairs = list(pairwise(taken))
    exponents = [
        [float(np.log(b[i] / a[i]) / np.log(b[0] / a[0])) for a, b in pairs] for i in (1, 2)
    ]
    yield f"{what} exponents", {"of_seconds": exponents[0], "of_memory": exponents[1]}


def rows(lines: dict[str, dict]) -> list[Row]:
    results = []
    for what, (sizes, _, _) in SIZES.items():
        own = [(n, lines[f"size/{what} {n}"]) for n in sizes if f"size/{what} {n}" in lines]
        text = "; ".join(f"{n}: {x['seconds']:.0f} s, {x['peak_mib']:.0f} MiB" for n, x in own)
        if text:
            results.append(Row(f"`score` by {what}: processor time, peak memory", text))
    return results


TASK = Task(
    measure="processor time and memory of score by size",
    cases={what: Case(partial(measure, what)) for what in SIZES},
    lines="size/",
    rows=rows,
)
