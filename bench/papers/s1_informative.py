"""The least and the most informative samples (S1 Figs 1, 4, 6): MNIST 4 vs 9, cats vs dogs.

Fig. 1 shows iCassava, which is not in the data folder. Fig. 6 shows the most informative cats and
dogs for three networks and remarks how much they overlap: counted here for two, on photographs
halved to 32 x 32.

    python papers/s1_informative.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import tasks
from figure import galleries, histogram
from record import record

import datassay as da
from datassay.data import SampleSet
from datassay.report import draw

SHOWN = 10


def row(samples: SampleSet, positions: np.ndarray) -> list[tuple[str, str]]:
    """Pictures with the labels they were given."""
    pictures = draw(samples, positions)
    names = [samples.class_names[samples.y[i]] for i in positions]
    return [(picture.image, name) for picture, name in zip(pictures, names, strict=True)]


def main() -> None:
    cases = {
        "MNIST 4 vs 9": (
            tasks.draw(tasks.idx_images, (1000, 1000), 0, "mnist", classes=(4, 9)),
            ("mlp:width=1024",),
        ),
        "cats vs dogs": (
            [
                tasks.halved(s)
                for s in tasks.draw(tasks.cats_dogs, (1000, 500), 0, names=("cat", "dog"))
            ],
            ("mlp:width=512", "lenet5"),
        ),
    }
    for case, ((train, val), networks) in cases.items():
        start, rows, orders = time.perf_counter(), {}, []
        for network in networks:
            lin = da.collect(da.build_model(network, train), train, val)
            information = da.sample_information(lin).information
            order = np.argsort(information)
            orders.append(order)
            name = network.partition(":")[0]
            rows[f"least informative ({name})"] = row(train, order[:SHOWN])
            rows[f"most informative ({name})"] = row(train, order[::-1][:SHOWN])
            if network == networks[0]:
                by_class = {c: information[train.y == i] for i, c in enumerate(train.class_names)}
        slug = case.replace(" ", "_").lower()
        galleries(f"s1_informative_{slug}", f"S1 Figs 4, 6: {case}", rows)
        histogram(
            f"s1_informative_{slug}_histogram",
            f"S1 Fig. 4A: {case}",
            by_class,
            x_title="functional sample information, nats",
        )
        top = [set(order[::-1][:SHOWN].tolist()) for order in orders]
        means = {c: float(v.mean()) for c, v in by_class.items()}
        record(
            f"s1_informative/{case}",
            n=len(train),
            networks=list(networks),
            mean_information_by_class=means,
            share_of_information_in_top_tenth=float(
                np.sort(np.concatenate(list(by_class.values())))[-100:].sum()
                / sum(v.sum() for v in by_class.values())
            ),
            shared_by_the_top_ten_of_all_networks=len(set.intersection(*top)),
            seconds=time.perf_counter() - start,
        )


if __name__ == "__main__":
    main()
