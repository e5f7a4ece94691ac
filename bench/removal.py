"""Digits: what removing half of the samples costs, by ranking, over splits and seeds.

Networks are really retrained: 5 splits of the data, 5 networks each, on 80 % of digits with and
without 10 % uniform label noise; accuracy on the held-out fifth.
"""

import numpy as np
from record import record

from datassay.commands import LOWEST_FIRST, SUSPECTS_FIRST, RunSettings, run
from datassay.data import add_label_noise, load

SPLITS = 5


def main() -> None:
    for noise in (0.0, 0.1):
        scores: dict[str, list[np.ndarray]] = {}
        full = []
        for split in range(SPLITS):
            train, val = load("digits", seed=split)
            if noise:
                train = add_label_noise(train, noise, seed=split)
            curve = run(train, val, RunSettings(seed=split)).removal_curve
            full.append(curve.at("random", 0.0).mean())
            for name in curve.rankings:
                scores.setdefault(name, []).append(curve.at(name, 0.5).mean())
        names = list(scores)
        means = {name: float(np.mean(scores[name])) for name in names}
        gain = {
            name: np.array(scores[name]) - np.array(scores["random"])
            for name in (LOWEST_FIRST, SUSPECTS_FIRST)
        }
        record(
            f"removal/digits half removed, {noise:.0%} label noise",
            splits=SPLITS,
            networks_a_split=5,
            accuracy_all_samples=float(np.mean(full)),
            accuracy=means,
            gain_over_random={n: float(g.mean()) for n, g in gain.items()},
            gain_interval_95={
                n: [float(g.mean() + s * 2.776 * g.std(ddof=1) / SPLITS**0.5) for s in (-1, 1)]
                for n, g in gain.items()
            },
        )


if __name__ == "__main__":
    main()
