"""Linear models at their minimum, and influence over pairs as one reads it: n x n, by autograd."""

import numpy as np
import torch

from datassay.collect.curvature.output_geometry import DenseFeatures, OutputGeometry, SharedFeatures
from datassay.train.convex import fit_convex

SHAPES = [("cross_entropy", 3), ("cross_entropy", 1), ("mse", 2)]


def draw(n, d, k, loss, seed, scale=1.0):
    """Inputs with a column of ones, and targets that the inputs half explain."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([scale * rng.normal(size=(n, d - 1)), np.ones(n)])
    score = x @ rng.normal(size=(d, k)) + rng.gumbel(size=(n, k))
    if loss == "mse":
        targets = score
    elif k == 1:
        targets = (score > 0).astype(float)
    else:
        targets = np.eye(k)[score.argmax(1)]
    return torch.from_numpy(x), torch.from_numpy(targets)


def geometry(n=12, d=3, k=3, loss="cross_entropy", seed=0, ridge=0.01, scale=1.0):
    x, targets = draw(n, d, k, loss, seed, scale)
    return at_minimum(x, targets, loss, ridge)


def at_minimum(x, targets, loss, ridge):
    features = SharedFeatures(x, targets.shape[1])
    weights = fit_convex(features, targets, loss, ridge).weights[0]
    return OutputGeometry(features, features.outputs(weights), targets, loss, weights)


def dense(index):
    """The same geometry with its Jacobians written out."""
    rows = DenseFeatures(index.features.rows(slice(None)))
    return OutputGeometry(rows, index.outputs, index.targets, index.loss, index.weights)


def sample_loss(weights, rows, target, loss):
    """ℓ of one sample by its definition; rows [k, p]."""
    f = rows @ weights
    if loss == "mse":
        return 0.5 * (f - target).square().sum()
    if len(f) == 1:
        p = torch.sigmoid(f[0])
        return -(target[0] * torch.log(p) + (1 - target[0]) * torch.log(1 - p))
    return -(target * torch.log_softmax(f, 0)).sum()


def pair_matrix(index, weights, keep, ridge, damping):
    """X(z, z′) over the samples kept, [n, n], all derivatives by autograd."""
    rows, targets = index.features.rows(slice(None))[keep], index.targets[keep]

    def mean_loss(w):
        losses = torch.func.vmap(sample_loss, (None, 0, 0, None))(w, rows, targets, index.loss)
        return losses.mean() + 0.5 * ridge * w @ w

    per_sample = torch.func.vmap(torch.func.grad(sample_loss), (None, 0, 0, None))
    gradients = per_sample(weights, rows, targets, index.loss)
    hessian = torch.func.jacrev(torch.func.grad(mean_loss))(weights)
    hessian = hessian + damping * torch.eye(len(weights)).double()
    return -gradients @ torch.linalg.solve(hessian, gradients.T)


def off_diagonal(x):
    return np.asarray(x)[~np.eye(len(x), dtype=bool)]
