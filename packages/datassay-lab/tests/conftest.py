"""The lab's tests: torch as on the command line, a browser, and the table of experiments."""

import os
from functools import cache
from typing import NamedTuple

import pytest

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # as the command line does, before torch
from datassay_lab.catalog import experiment, experiments
from helpers.browser import started
from helpers.threads import pytest_configure  # noqa: F401


class Row(NamedTuple):
    """How one experiment is tested.

    `small`: parameters with which its statement holds; `tiny`: what is less still where only the
    seed and the figures are looked at; each of `broken` makes the statement fail.
    """

    small: dict
    tiny: dict
    broken: tuple = ()


COURSE = {
    "linear-convolution": Row(
        {"n_samples": 6, "size": 16, "steps": 800}, {"steps": 20}, [{"depth": 1}],
    ),
    "shift-equivariance": Row(
        {"n_images": 5, "size": 12, "channels": 3, "n_angles": 5}, {}, [{"padding": "zeros"}],
    ),
    "permutation-equivariance": Row({"size": 4, "draws": 50, "seed": 2}, {}, [{"group": "cyclic"}]),
    "depth-compositionality": Row(
        {"max_depth": 4, "starts": 1, "steps": 50, "seed": 1}, {}, [{"slope": 1.0}],
    ),
    "polynomial-overfitting": Row(
        {"draws": 60, "seed": 1}, {}, [{"n_samples": 300}, {"noise": 1e-3}],
    ),
    "bias-variance": Row({"seed": 1}, {"draws": 100}, [{"targets": "training"}]),
    "double-descent": Row(
        {"n_samples": 40, "draws": 10, "ratios": (0.1, 0.3, 0.6, 1.0, 1.5, 3.0, 6.0), "seed": 1},
        {"draws": 2}, [{"penalty": 1.0}],
    ),
    "generative-discriminative": Row(
        {"sizes": (20, 80, 320, 2560), "repeats": 15, "seed": 1},
        {"repeats": 2}, [{"correlation": 1e-3}],
    ),
    "autoencoder": Row(
        {"bottlenecks": (2, 4), "steps": 500, "seed": 1},
        {"iterations": 2, "steps": 5}, [{"iterations": 3, "steps": 5}],
    ),
    "variational-autoencoder": Row(
        {"steps": 400, "n_digits": 12, "seed": 1}, {"steps": 12, "n_digits": 2, "draws": 2},
        [{"steps": 100, "trick": False}],
    ),
    "gan": Row({"steps": 500, "digit_steps": 60, "seed": 1}, {"steps": 25, "digit_steps": 2}, ()),
    "optimal-discriminator": Row({"steps": 1500, "seed": 1}, {"steps": 3}, [{"steps": 10}]),
    "minimum-norm": Row(
        {"n_equations": 5, "n_unknowns": 12, "seed": 2}, {"steps": 50}, [{"steps": 5}],
    ),
    "matrix-completion": Row(
        {"size": 10, "rank": 1, "observed": (45, 96), "matrices": 2, "steps": 1500, "deepest": 3,
         "seed": 1},
        {"steps": 100}, [{"observed": (35, 45), "deepest": 2}],
    ),
    "early-stopping": Row(
        {"n_features": 15, "n_samples": 100, "steps": (1, 3, 10, 30, 100), "seed": 1},
        {"n_features": 4, "n_samples": 20, "steps": (1, 2, 4)},
        [{"n_features": 5, "steps": (10, 100, 1000, 10_000), "seed": 0}],
    ),
    "finite-steps": Row(
        {"width": 3, "steps": (40, 80, 160), "duration": 2.0, "seed": 1},
        {"width": 2, "steps": (10, 20, 40), "duration": 1.0},
        [{"steps": (80, 160, 320), "factor": f} for f in (0.2, 0.5, -0.25)],
    ),
    "learned-features": Row(
        {"n_inputs": 8, "width": 30, "sizes": (50, 400), "steps": 250, "repeats": 1, "seed": 1},
        {"sizes": (20, 40), "steps": 5, "repeats": 1}, [{"sizes": (20, 40), "repeats": 1}],
    ),
    "ntk-width": Row(
        {"n_samples": 12, "widths": (64, 512, 4096), "repeats": 4, "seed": 2},
        {"n_samples": 3, "widths": (4, 8), "repeats": 1}, [{"output_weights": "cauchy"}],
    ),
    "lazy-training": Row(
        {"n_samples": 16, "widths": (64, 512), "steps": 150, "repeats": 3, "seed": 2},
        {"widths": (8, 16), "steps": 10}, [{"scaling": "mean field"}],
    ),
    "linearized-training": Row(
        {"widths": (128, 512, 2048), "steps": 100, "repeats": 2, "seed": 2},
        {"widths": (8, 16), "steps": 10}, [{"scaling": "mean field"}],
    ),
    "eigenmodes": Row(
        {"n_samples": 16, "width": 4096, "steps": 600, "repeats": 1, "seed": 2},
        {"width": 32, "steps": 100}, [{"width": 32}],
    ),
    "universal-approximation": Row(
        {"units": (8, 32, 128), "n_points": 600, "repeats": 2, "seed": 2},
        {"units": (4, 8), "n_points": 100, "repeats": 1}, [{"activation": "square"}],
    ),
    "spectral-bias": Row(
        {"n_frequencies": 5, "n_samples": 64, "width": 64, "depth": 3, "repeats": 2, "steps": 250,
         "seed": 2},
        {"steps": 10}, [{"inputs": "waves"}],
    ),
    "class-activation": Row(
        {"canvas": 14, "n_train": 400, "steps": 100}, {"steps": 3}, [{"steps": 1}],
    ),
    "fourier-mask": Row({"steps": 150}, {"steps": 5}, [{"steps": 1}]),
    "first-filters": Row(
        {"width": 20, "steps": 150}, {"steps": 5}, [{"shuffle_pixels": True}, {"start": 10.0}],
    ),
    "texture-shape": Row(
        {"n_train": 300, "steps": 100}, {"n_train": 40, "steps": 3}, [{"remedy": "agreeing"}],
    ),
    "wavelets-trees": Row({"leaves": (10,), "draws": 2}, {"draws": 1}, [{"basis": "random"}]),
    "out-of-distribution": Row(
        {"width": 32, "steps": 150, "n_rays": 100, "seed": 1},
        {"steps": 5, "n_rays": 10}, [{"activation": "tanh"}],
    ),
    "weight-decay": Row({"n_features": 8, "n_samples": 40, "seed": 3}, {}, [{"steps": 20}]),
    "input-noise": Row(
        {"copies": (1, 10, 100, 1000), "seed": 2}, {"copies": (1, 10)}, [{"copies": (1,)}],
    ),
    "dropout": Row(
        {"width": 4, "depth": 2, "n_features": 6, "train_steps": 60, "seed": 1},
        {"train_steps": 10}, [{"width": 3, "depth": 1, "n_features": 4, "scale_weights": False}],
    ),
    "normalization": Row(
        {"spreads": (1.0, 4.0, 16.0), "seed": 1},
        {"spreads": (1.0, 2.0)}, [{"spreads": (1.0, 4.0), "step_scale": 0.5}],
    ),
    "adversarial-training": Row(
        {"trained": (0.0, 0.1), "attacks": (0.0, 0.05, 0.1), "width": 8, "steps": 80, "seed": 1},
        {"steps": 5}, [{"attack": "gradient"}],
    ),
    "step-size": Row(
        {"n_features": 3, "condition": 3.0, "steps": 400, "runs": 150, "seed": 1},
        {"steps": 100, "runs": 5}, [{"momentum": 0.5}],
    ),
    "xavier": Row(
        {"width": 200, "depth": 6, "networks": 15, "seed": 1},
        {"width": 20, "depth": 3, "networks": 2}, [{"shared_variance": 0.3}],
    ),
    "flat-minima": Row(
        {"batch_sizes": (4, 16), "n_samples": 100, "width": 12, "updates": 500, "networks": 3,
         "seed": 1},
        {"updates": 10}, [{"learning_rate": 0.002}],
    ),
    "stationary-covariance": Row(
        {"n_features": 2, "n_samples": 20, "step_sizes": (0.05, 0.2), "runs": 150, "records": 60,
         "seed": 1},
        {"runs": 5, "records": 2}, [{"step_sizes": (0.5, 0.6)}],
    ),
    "augmented-gradient": Row({"n_images": 4, "width": 5}, {}, [{"share": 0.5}]),
    "symmetric-weights": Row({"n_images": 30, "width": 6, "steps": 40}, {}, [{"share": 0.5}]),
    "shift-averaging": Row({}, {}, [{"convention": "printed"}]),
    "invariant-loss": Row(
        {"n_samples": 10, "rates": (0.003, 0.01), "time": 2.0}, {}, [{"n_angles": 3}],
    ),
}  # fmt: skip
# Beside single values, which all have rules: values that do not go together, and own words.
REFUSED = [
    ("linear-convolution", {"size": 10}, "size must be a whole number of at least 11"),
    ("shift-equivariance", {"size": 13}, "size must be even"),
    ("permutation-equivariance", {"size": 9}, "size must be a whole number in 3 to 8"),
    ("depth-compositionality", {"max_depth": 7}, "max_depth must be a whole number <= 6; got 7"),
    ("depth-compositionality", {"slope": 2.5}, r"slope must be a number in \(0, 2\]; got 2.5"),
    ("generative-discriminative", {"correlation": 1.0}, r"correlation must lie in \(0, 1\)"),
    ("autoencoder", {"bottlenecks": (4, 8)}, "bottlenecks must start at 2"),
    ("autoencoder", {"bottlenecks": (2, 40)}, "and end at 32 at most"),
    ("minimum-norm", {"n_unknowns": 20}, "n_unknowns must be a whole number of at least 21"),
    ("matrix-completion", {"rank": 20}, "rank must be < size"),
    ("matrix-completion", {"observed": (10, 500)}, "observed at most size²"),
    ("early-stopping", {"step_size": 2.0}, r"step_size must lie in \(0, 2\)"),
    ("finite-steps", {"duration": 1e6, "steps": (20, 40, 80)}, "steps must make descent stable"),
    ("universal-approximation", {"n_points": 99}, "must be a whole number of at least 1,024"),
    ("spectral-bias", {"n_samples": 39}, "a whole number of at least 40; got 39"),
    ("class-activation", {"canvas": 15}, "canvas must be even"),
    ("fourier-mask", {"power": 0.5}, "power must be at least 1"),
    ("wavelets-trees", {"leaves": (5, 10)}, "leaves must be 1 or more increasing numbers >= 10"),
    ("weight-decay", {"n_samples": 5}, "n_samples must be a whole number of at least 21"),
    ("input-noise", {"n_samples": 12}, "n_samples must be a whole number of at least 13"),
    ("dropout", {"width": 11, "depth": 2}, "width · depth and n_features must be <= 20"),
    ("dropout", {"n_features": 21, "n_samples": 50}, r"must be <= 20, for 2\^20 masks"),
    ("normalization", {"step_scale": 1.5}, r"step_scale must lie in \(0, 1\)"),
    ("adversarial-training", {"trained": (0.1, 0.2)}, "trained and attacks must start at 0"),
    ("step-size", {"momentum": 1.0}, r"momentum in \[0, 1\)"),
    ("xavier", {"shared_variance": 1.0}, "shared_variance must lie in"),
    ("flat-minima", {"batch_sizes": (4, 200)}, "batch_sizes must stay below n_samples"),
    ("flat-minima", COURSE["flat-minima"].small | {"learning_rate": 50.0}, "keep training finite"),
    ("stationary-covariance", {"step_sizes": (0.1, 1.5)}, "largest step size must lie in"),
    ("augmented-gradient", {"share": 1.5}, "share must lie in \\(0, 1\\]"),
    ("invariant-loss", {"time": 0.02}, r"largest of rates must lie in \(0, 0.02\)"),
    ("pde-discovery", {"folder": "/nowhere"}, "folder must hold burgers.mat"),
    ("pde-discovery", {"n_windows": 3}, "n_windows must be a whole number of at least 50"),
]


@pytest.fixture
def broken_by():
    """Return, by experiment, the parameters that make its statement fail."""
    return {name: row.broken for name, row in COURSE.items()}


# Fixture → its values.
EACH = {
    "named": [(e.name,) for _, e in experiments()],
    "smaller": [(name, row.small, row.small | row.tiny) for name, row in COURSE.items()],
    "broken": [(name, row.small | bad) for name, row in COURSE.items() for bad in row.broken],
    "refused": REFUSED,
}


# Those that train networks for seconds; their parameters are checked in every run.
LONG = {"autoencoder", "variational-autoencoder", "gan", "optimal-discriminator", "texture-shape"}
LONG |= {"flat-minima", "fourier-mask"}


def pytest_generate_tests(metafunc):
    for fixture in EACH.keys() & set(metafunc.fixturenames):
        slow = LONG if fixture in {"smaller", "broken"} else ()
        cases = [
            pytest.param(case, id=case[0], marks=[pytest.mark.slow] * (case[0] in slow))
            for case in EACH[fixture]
        ]
        metafunc.parametrize(fixture, cases)


@cache
def _small(name):
    return experiment(name).run(**COURSE[name].small)


@pytest.fixture(scope="session")
def small():
    """From an experiment's name to its result with the small parameters of the table."""
    return _small


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """One headless browser for all tests."""
    with started(tmp_path_factory.mktemp("profile")) as driver:
        yield driver
