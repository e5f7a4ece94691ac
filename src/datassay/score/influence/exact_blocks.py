"""Which blocks' Hessians are exact, their damping, and the memory that they take."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from datassay.collect.gradients.blocks import Block
from datassay.collect.loss import MOST_SUMMED
from datassay.errors import SettingError
from datassay.machine import available_memory

# Kronecker factors of up to this many rows have their eigenbasis; larger ones stay as they are.
LARGEST_SIDE = 4096
# Blocks of up to this many weights are exact, the smallest first, as long as all of them together
# take no more than so many operations, half a minute or so.
LARGEST_EXACT = 4096
MOST_OPERATIONS = 1e12
# Damping, of the mean eigenvalue, where a block is factored, and where it is exact with ENOUGH
# samples: best for most networks on which settings were chosen (digits and Fashion-MNIST, 1000
# samples, `bench/attribution/halves.py`). Fewer samples are damped more, in proportion.
FACTORED = 0.1
EXACT = 1.0
ENOUGH = 1000


class Penalty(NamedTuple):
    """What is added to a block's eigenvalues: share · their mean + decay."""

    share: float
    decay: float


def damping_of(values: Tensor, penalty: Penalty) -> float:
    """Return share · mean(values) + decay; values: eigenvalues, or the Hessian's diagonal."""
    return penalty.share * float(values.mean()) + penalty.decay


def auto_damping(n: int, *, is_exact: bool) -> float:
    """Return the "auto" damping of a block, as a share of its mean eigenvalue."""
    # 0.1 where it is factored, else max(1, 1000/n). Added to the Hessian of the summed loss the
    # latter stays the same below 1000 samples, as a prior does. On seven sets of 120 to 800 samples
    # (digits, wine, breast_cancer, synthetic; seeds of their own) it raised the linear
    # datamodelling score by up to 0.12 and lowered it by 0.002 at most; language models of so few
    # texts were not measured.
    if is_exact:
        return EXACT * max(1.0, ENOUGH / n)
    return FACTORED


def exact_rule(
    curvature: str, n: int, blocks: list[Block], max_operations: float = MOST_OPERATIONS
) -> Callable[[Block], bool]:
    """Return a predicate: whether a block's Hessian is computed exactly, not factored."""
    # "auto": the smallest blocks are, as many as `max_operations` allow for n samples.
    if curvature == "blocks":
        return lambda block: True
    if curvature == "ekfac":
        return lambda block: False
    exact_names = set()
    budget = max_operations
    for block in sorted(blocks, key=lambda b: b.size):
        budget -= 2.0 * n * MOST_SUMMED * block.size**2 + 3.0 * block.size**3
        if block.size > LARGEST_EXACT or budget < 0:
            break
        exact_names.add(block.name)
    return lambda block: block.name in exact_names


def penalties(
    blocks: list[Block],
    n: int,
    is_exact: Callable[[Block], bool],
    damping: float | str,
    weight_decay: float,
) -> dict[str, Penalty]:
    """Return {block name: damping and weight decay to add to its eigenvalues}; n: samples."""
    results = {}
    for block in blocks:
        is_auto = damping == "auto"
        share = auto_damping(n, is_exact=is_exact(block)) if is_auto else float(damping)
        results[block.name] = Penalty(share, float(weight_decay))
    return results


def curvature_bytes(blocks: list[Block], is_exact: Callable[[Block], bool]) -> int:
    """Return the peak bytes of fitting the blocks' Hessians, which is done in float64."""
    total = 0
    for block in blocks:
        if is_exact(block):  # three float64 matrices at once
            total += 3 * 8 * block.size**2
        else:
            sides = [side for side in block.shape if side <= LARGEST_SIDE]
            total += 8 * (block.size + 2 * sum(side**2 for side in sides))
    return total


def check_curvature_memory(blocks: list[Block], is_exact: Callable[[Block], bool]) -> None:
    """Raise if the blocks' Hessians do not fit in memory."""
    needed = curvature_bytes(blocks, is_exact)
    available = available_memory()
    if needed > available:
        largest = max(blocks, key=lambda b: curvature_bytes([b], is_exact))
        raise SettingError(
            f"the curvature must fit in memory: it needs {needed / 1e9:.1f} GB and "
            f"{available / 1e9:.1f} GB are free; the largest block is {largest.name!r} with "
            f"{largest.size} weights. Use curvature='ekfac', or choose weights: "
            "parameters='classifier'."
        )
