"""Split the samples into blocks, each with a model of its own (S4)."""

import numpy as np

from datassay.act.choose.action import SPLIT, Action, Blocks, splitting
from datassay.act.choose.kinds import ActionKind, ProposalScores
from datassay.data.samples import SampleSet
from datassay.errors import DatassayError

# Blocks take thousands of Newton steps, so they are found on at most this many samples, columns.
MOST_SAMPLES = 400
COLUMNS = 8
RESTARTS = 1
# With more columns the leading eight are too few: two blocks then fit curvature, which a network
# learns anyway. In sets of images blocks were always found, and lost in 32 of 36.
MOST_COLUMNS = 40
MOST_CLASSES = 20  # with more, so few samples hold too few of each
RIDGE = 1e-3


def propose(train: SampleSet, scores: ProposalScores) -> Action | str:
    """Return the action "two blocks, a linear model each", or why it is not proposed."""
    if train.y.ndim > 1:
        return "Splitting: it is of one target per sample."
    if train.x[0].size > MOST_COLUMNS:
        return (
            f"Splitting: blocks are sought here in at most {MOST_COLUMNS} columns; "
            "datassay partition looks in more."
        )
    if train.n_classes > MOST_CLASSES:
        return f"Splitting: blocks are sought in samples of at most {MOST_CLASSES} classes."
    # Slow to import, as scikit-learn is.
    from datassay.methods.partition.routing import (
        compact,
        fit_router,
        linear_partition,
        scaled_linear,
    )

    seed = scores.seed
    rows = np.asarray(train.x, np.float64).reshape(len(train), -1)
    targets = train.y[:, None]
    loss = "mse"
    if train.is_classification:
        targets = np.eye(train.n_classes)[train.y]
        loss = "cross_entropy"
    fit_idx = np.sort(np.random.default_rng((seed, 1)).permutation(len(train))[:MOST_SAMPLES])
    try:
        divided = linear_partition(
            rows, targets, loss, n_blocks=None, max_blocks=2, ridge=RIDGE,
            restarts=RESTARTS, seed=seed, fit_idx=fit_idx, most_features=COLUMNS,
        )  # fmt: skip
    except DatassayError as error:
        return f"Splitting: {error}"
    block, responsibility = compact(divided, len(train))
    members = [np.flatnonzero(block == k) for k in range(responsibility.shape[1])]
    if len(members) < 2 or min(map(len, members)) < 8:
        return "Splitting: one linear model explains held-out samples as well as two."
    router = scaled_linear()
    fitted_router = None
    if divided is not None and divided.is_gated:  # else the inputs do not tell blocks apart
        fitted_router, _, _ = fit_router(rows, block, responsibility, router, seed)
    share = np.array([len(positions) for positions in members]) / len(train)
    return splitting(train, Blocks(tuple(members), share, fitted_router), seed)


ACTIONS = (
    ActionKind(
        name=SPLIT,
        help="Each block of samples gets a model of its own, and a router says which counts.",
        propose=propose,
        doing="splitting the data into blocks",
        is_followed=False,
        fits=4,
        command="partition",
        is_searched=True,
        is_slow=True,
        order=40,
    ),
)
