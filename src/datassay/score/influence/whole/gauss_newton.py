"""Leave-one-out at trained weights, to second order: Gauss–Newton with the sample's own leverage.

With H = Σ J_iᵀ S_i J_i + ε I, S_i the Hessian of the loss in its outputs and R_i its gradient, the
Newton step from the trained weights to those without sample i is
θ₋ᵢ − θ = H⁻¹ J_iᵀ (I − S_i H_ii)⁻¹ R_i,  H_ii = J_i H⁻¹ J_iᵀ.

With weight decay in the mean loss its share leaves too: ε is n·damping + (n − 1)·decay, and with
g = (1/n) Σ J_jᵀ R_j, −decay (θ − θ₀) at the minimum, the step is that of J_iᵀ R_i − g.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from datassay.collect.collection import collect
from datassay.collect.linearization import Linearization
from datassay.collect.loss import loss_named
from datassay.errors import SettingError
from datassay.rules import one_of, positive
from datassay.score.effects import CHUNK_VALUES, OutputChanges
from datassay.score.influence.request import TRUSTED
from datassay.score.influence.whole.solvers import Problem
from datassay.score.linear.eigenbasis import eigenbasis
from datassay.score.linear.panels import all_rows, gram, solve_each
from datassay.score.settings import TrainedWeights


def gauss_newton(
    lin: Linearization, loss: str, damping: float, *, leverage: bool = True, decay: float = 0.0
) -> Iterator[OutputChanges]:
    """Yield changes by removing each sample, at the weights where `lin` was collected.

    Args:
        lin: collected at the trained weights with allow_trained=True and, where k > 1, joint
            outputs; the queries are its validation samples, else its training samples.
        loss: training loss, "cross_entropy" or "mse".
        damping: of the mean loss; includes the weight decay of the training.
        leverage: take each sample's own into account; False: to first order in its weight.
        decay: the part of damping that is weight decay, so that (n − 1)·decay is left without a
            sample; 0 keeps all of it.

    Yields:
        Chunks in sample order; output changes are linear in the step.

    Raises:
        SettingError: damping is not positive, or the loss or the form does not fit.

    Cost: 2 n k p² operations for H and 2 m k p a sample; n k p values. Kernels cost an
    eigendecomposition first, p = n k.
    Source: METHODS §3, "at trained weights with cross-entropy". For mean squared error on a linear
    model it is the exact ridge leave-one-out. Deviates from Koh & Liang (2017) by the leverage and
    by Gauss–Newton's H.
    """
    positive("damping", damping)
    one_of("loss", loss, ("cross_entropy", "mse"), remedy="Linearise a network of one of them.")
    n, k = lin.outputs.shape
    if lin.rows_per_sample != k:
        raise SettingError(
            "Gauss-Newton with cross-entropy couples the outputs; got averaged ones. Collect with "
            "outputs='joint'."
        )
    features, queries = _split_features(lin)  # [n, k, p], [m, k, p]
    kind = loss_named(loss)
    slope = kind.gradient(lin.outputs.double(), lin.targets.double())  # R
    curvature = kind.hessian(lin.outputs.double())  # S
    values, vectors = torch.linalg.eigh(curvature)
    # Probabilities sum to 1, so S has a null direction, which rounding can turn negative.
    root = (vectors * values.clamp_min(0).sqrt()[:, None, :]) @ vectors.mT  # √S, [n, k, k]
    hessian = gram((root @ features).flatten(0, 1))
    hessian.diagonal().add_(damping * n - (decay if leverage else 0.0))
    lower = torch.linalg.cholesky(hessian)
    white = _whiten(lower, features)  # J L⁻ᵀ
    white_queries = _whiten(lower, queries)
    del lin, features, queries, hessian  # several networks may be held here at once
    own_kernel = white @ white.mT  # H_ii, [n, k, k]
    step = slope[..., None]
    mean_gradient = (white.mT @ step).mean(0)  # L⁻¹ g
    if not decay > 0:  # at a minimum of the loss alone it is 0
        mean_gradient = torch.zeros_like(mean_gradient)
    if leverage:
        system = torch.eye(k, dtype=torch.float64) - curvature @ own_kernel
        shifted = step - curvature @ (white @ mean_gradient)  # R − S J H⁻¹ g
        step = solve_each(system, shifted)  # (I − S H_ii)⁻¹ of it
    changes = (mean_gradient - white.mT @ step)[..., 0]  # w − w₋ᵢ in whitened coordinates, [n, p]
    self_effect = -((white @ changes[..., None])[..., 0] * slope).sum(1)  # −∇ℓ_i (w − w₋ᵢ)
    del white, own_kernel
    chunk = max(1, CHUNK_VALUES // white_queries[..., 0].numel())
    for start in range(0, n, chunk):
        change = changes[start : start + chunk]
        outputs = (change @ white_queries.flatten(0, 1).T).reshape(len(change), -1, k)
        weights = torch.linalg.solve_triangular(lower.T, change.T, upper=True).square().sum(0)
        yield OutputChanges(start, outputs, weights, self_effect[start : start + chunk])


def _split_features(lin: Linearization) -> tuple[Float[Tensor, "n k p"], Float[Tensor, "m k p"]]:
    """Return Jacobian features of samples and queries; without queries the samples' twice."""
    # From a kernel's eigenbasis K = Q λ Qᵀ: J = Q √λ, and K_q Q / √λ of queries.
    k = lin.rows_per_sample
    if lin.features is not None:
        features = all_rows(lin.features)
        queries = features
        if lin.val_features is not None:
            queries = all_rows(lin.val_features)
    else:
        basis = eigenbasis(lin)
        root = basis.eigenvalues.sqrt()
        features = basis.whole_rows().flatten(0, 1) * root
        queries = features
        if basis.val is not None:
            inverse_root = torch.where(root > 0, 1 / torch.where(root > 0, root, 1.0), 0.0)
            queries = basis.query_rows() * inverse_root
    p = features.shape[1]
    return features.reshape(-1, k, p), queries.reshape(-1, k, p)


def _whiten(lower: Float[Tensor, "p p"], rows: Float[Tensor, "n k p"]) -> Float[Tensor, "n k p"]:
    """Return rows L⁻ᵀ, L the `lower` factor."""
    flat = rows.flatten(0, 1)
    return torch.linalg.solve_triangular(lower, flat.T, upper=False).T.reshape(rows.shape)


def changes_on_arrays(
    problem: Problem, projection: int | None = None, response: str = TrainedWeights.response
) -> Iterator[OutputChanges]:
    """Yield `gauss_newton`'s changes of the samples to remove, from the network itself."""
    # Source: METHODS §3. H is positive semidefinite at any weights, so damping alone decides
    # whether it can be inverted. Projected effects deviate (TRAK's approximation: Park et al.,
    # 2023): on 400 digits 2048 features kept 0.88 of the five largest effects per query.
    loss = problem.mean_loss.loss
    leverage = response == "leave_one_out"
    lin = _collect(problem, projection)
    decay = problem.weight_decay
    changes = gauss_newton(lin, loss, problem.penalty, leverage=leverage, decay=decay)
    changes = _warn_if_far(changes, problem)
    if problem.removed is None:
        yield from changes
        return
    chunks = list(changes)  # all samples' leverages are computed together anyway
    idx = torch.tensor(problem.removed)
    columns = {
        name: torch.cat([getattr(chunk, name) for chunk in chunks])[idx]
        for name in ("outputs", "weights", "self_influence")
    }
    yield OutputChanges(0, **columns)


def _warn_if_far(chunks: Iterator[OutputChanges], problem: Problem) -> Iterator[OutputChanges]:
    """Yield the chunks unchanged; afterwards warn if outputs moved too far to trust."""
    n_far = 0
    farthest = 0.0
    for chunk in chunks:
        distances = chunk.outputs.abs().amax((1, 2))
        n_far += int((distances > TRUSTED).sum())
        farthest = max(farthest, float(distances.max()))
        yield chunk
    if n_far and loss_named(problem.mean_loss.loss).has_one_class:
        problem.warnings.append(
            f"removing one sample moves an output by up to {farthest:.1f} logits ({n_far} samples "
            f"by more than {TRUSTED:g}), further than a linear model of the network can be trusted:"
            " the network is far from a minimum. Use response='first_order', or curvature='auto'."
        )


def _collect(problem: Problem, projection: int | None) -> Linearization:
    """Return the linearisation of the trained network, with joint outputs."""
    return collect(
        problem.model,
        problem.train,
        problem.val,
        projection=projection,
        outputs="joint",
        allow_trained=True,
        seed=problem.seed,
        progress=problem.progress,
    )
