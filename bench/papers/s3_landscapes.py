"""S3 Figs 1.2, 1.3: output and loss of a random one-layer network over two coordinates.

Left panels: two inputs (or weights) vary and all others stay; right panels: the others are drawn
anew at every point. Whether the left ones are convex is counted: second differences along both
axes and both diagonals.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from figure import maps
from record import record

from datassay.complexity import draw_networks, network_outputs

INPUTS, WIDTH, SAMPLES, CELLS, SEED = 10, 5, 200, 21, 0


def surface(values: Callable[[float, float], float], axis: np.ndarray) -> np.ndarray:
    """A function on a grid, [CELLS, CELLS]."""
    return np.array([[values(a, b) for b in axis] for a in axis])


def curved_down(z: np.ndarray) -> float:
    """The share of second differences below 0: 0 for a convex surface."""
    steps = [
        z[2:] - 2 * z[1:-1] + z[:-2],
        z[:, 2:] - 2 * z[:, 1:-1] + z[:, :-2],
        z[2:, 2:] - 2 * z[1:-1, 1:-1] + z[:-2, :-2],
        z[2:, :-2] - 2 * z[1:-1, 1:-1] + z[:-2, 2:],
    ]
    scale = 1e-9 * np.abs(z).max()
    return float(np.mean(np.concatenate([s.ravel() for s in steps]) < -scale))


def outputs(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """f(x) of one network, [n]."""
    return network_outputs(torch.as_tensor(x)[None], torch.as_tensor(w)[None, None])[0, 0].numpy()


def main() -> None:
    """Four surfaces, one line in the results."""
    rng = np.random.default_rng(SEED)
    w = draw_networks(rng, 1, INPUTS, WIDTH)[0]
    base = rng.standard_normal(INPUTS)
    x = rng.standard_normal((SAMPLES, INPUTS))
    y = outputs(x, draw_networks(rng, 1, INPUTS, WIDTH)[0])

    def prediction(a: float, b: float, redraw: bool) -> float:
        point = rng.standard_normal(INPUTS) if redraw else base.copy()
        point[:2] = a, b
        return float(outputs(point[None], w)[0])

    def loss(a: float, b: float, redraw: bool) -> float:
        weights = draw_networks(rng, 1, INPUTS, WIDTH)[0] if redraw else w.copy()
        weights[:2, 0] = a, b
        return float(np.mean((outputs(x, weights) - y) ** 2))

    found = {}
    for name, values, reach in (("1_2", prediction, 3.0), ("1_3", loss, 1.0)):
        axis = np.linspace(-reach, reach, CELLS)
        panels = {
            "others fixed": surface(lambda a, b, f=values: f(a, b, False), axis),
            "others drawn anew": surface(lambda a, b, f=values: f(a, b, True), axis),
        }
        found[name] = {k: curved_down(z) for k, z in panels.items()}
        title = "Prediction over two inputs" if name == "1_2" else "Loss over two weights"
        which = "second input" if name == "1_2" else "second weight"
        maps(
            f"s3_landscape_{name}",
            f"{title} of a random network, d = {INPUTS}, m = {WIDTH}",
            {k: (z, axis, axis, which) for k, z in panels.items()},
        )
    record(
        "papers/s3_landscapes",
        inputs=INPUTS,
        width=WIDTH,
        samples=SAMPLES,
        share_of_second_differences_below_0=found,
    )


if __name__ == "__main__":
    main()
