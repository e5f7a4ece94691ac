"""Copies of pictures that were made smaller, grey, darker, cropped a little, or compressed."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.optimize import root_scalar
from torch import Tensor
from torch.nn.functional import affine_grid, avg_pool2d, grid_sample, interpolate, max_pool2d

from datassay.data.samples import SampleSet
from datassay.results import result
from datassay.score.checks.duplicates import EXACT_UP_TO, FEWEST, NO_LINKS
from datassay.score.checks.images import picture_pixels
from datassay.score.neighbors.search import nearest_neighbors

LEVELS = (48, 24, 12)  # pixels a side at which grain is compared, as many as both have
COARSE = LEVELS[-1]  # pixels a side at which contrast is compared
ENOUGH = 0.9  # of the pixels of a level that a picture must have
COLOURS = 6  # pixels a side of what is kept of colours; compression keeps no more
LUMA = (0.299, 0.587, 0.114)
CANDIDATES, AT_ONCE = 8, 200  # most similar pictures that are compared; pictures, pairs at once
MOST_CROPPED = 4000  # pictures of which cropped ones are looked for among all others
GREY = 0.02  # mean difference of colour from grey that a grey picture may have
# Of a copy what another brightness leaves unexplained is at most this part of its contrast, less
# where the same grain tells it; and brightness differs at most so many times.
UNEXPLAINED, WITH_GRAIN, BRIGHTER = 0.06, 0.02, 1.67
BLANK = 0.01  # standard deviation of pixels below which there is nothing to compare
# Grain is compared where neighbours differ at most so many times as in the flattest quarter, and
# at most by this part of the picture's deviation: where there are no edges.
FLAT, NO_EDGE = 3.0, 0.3
# Least correlation of the grain of copies, and of its sum over places by that of their squares,
# which a few places alone do not reach.
LEAST_GRAIN, SURE_GRAIN = 0.5, 4.0
ROUNDED = 2e-5  # of the contrast, that rounding to 8 bits leaves
# Pairs that tell how alike different pictures are, of those less alike than copies; false pairs
# that may be expected; and the powers that are taken of their chance.
LESS_ALIKE, KNOWN_BY, EXPECTED = 0.03, 30, 0.01
LEAST_RANGE = 4.0  # from the least alike of these to the most
AS_BRIGHT, SAME_POWER, OTHER_POWER = 0.02, 1.5, 2.0
# Parts of a side that are cut off, and where: 0 at its start, 1 at its end.
SHARES, ENDS = [i / 96 for i in range(3, 10)], ((0, 0), (0, 1), (1, 0), (1, 1), (0.5, 0.5))
CUTS = [(share, end) for share in SHARES for end in ENDS]


@result
class _Looks:
    """Pictures as they are compared."""

    whole: list[Tensor]  # [h, w] each, in grey, files at most 64 a side
    luma: dict[int, Tensor]  # [n, s, s] of each level
    colour: Float[Tensor, "n 72"]  # differences from grey, red and blue

    @property
    def tint(self) -> Float[Tensor, "n 2"]:
        """Return the mean colours, which a part of a picture has, too."""
        return self.colour.unflatten(1, (2, -1)).mean(2)


def _are_grey(colour: Float[Tensor, "n c"]) -> Bool[Tensor, " n"]:
    return colour.abs().mean(1) < GREY


def near_pictures(*sets: SampleSet | None) -> Int[np.ndarray, "l 2"]:
    """Return pairs of pictures of which one is a copy of the other, changed a little.

    The most similar pictures are compared on a small scale, one also cropped by up to a tenth: of
    a copy a factor of brightness explains nearly all contrast, and the grain, what is seen away
    from edges, is the same. Without the same grain, as compression leaves it, pictures must agree
    better than chance lets any two different ones. That is read off those that are less alike, by
    a power law, whose extrapolation is taken to a power of 1.5, or of 2 where brightness or frame
    differ, too: some classes have fewer ways to differ than others.

    Args:
        sets: samples, numbered through, or None; none is found among those that are no pictures,
            are blank, or have fewer than 11 pixels a side, or where there are more than 20 000.

    Returns:
        Positions; equal pictures among them.

    Cost: files are opened once; the nearest of n rows of 144 and 216 numbers, up to 4 000 pictures
    five times more; then about 2 ms a picture.
    Source: ours; the power law's likelihood is Hill's (1975), truncated.
    """
    known = [samples for samples in sets if samples is not None]
    is_many = sum(map(len, known)) > EXACT_UP_TO
    looks = None if is_many else _looks(known)
    if looks is None or len(looks.whole) < FEWEST:
        return NO_LINKS
    pairs = _candidates(looks)
    unexplained, is_bright, is_copy = _compared(looks, pairs)
    bounds = [max(ROUNDED, _by_chance(unexplained, p)) for p in (SAME_POWER, OTHER_POWER)]
    is_copy |= unexplained <= np.where(is_bright, *bounds)
    return np.concatenate([pairs[is_copy], _cropped(looks, pairs[~is_copy], bounds[1])])


def _looks(sets: list[SampleSet]) -> _Looks | None:
    whole, colour = [], []
    luma: dict[int, list[Tensor]] = {level: [] for level in LEVELS}
    for samples in sets:
        for pixels in picture_pixels(samples):
            some = torch.from_numpy(np.ascontiguousarray(pixels)).float()
            some = some.expand(-1, 3, -1, -1) if some.shape[1] == 1 else some
            grey = torch.einsum("bchw,c->bhw", some, torch.tensor(LUMA))[:, None]
            for level in LEVELS:
                luma[level].append(_resized(grey, level)[:, 0])
            colour.append(_resized((some - grey)[:, [0, 2]], COLOURS).flatten(1))
            whole += grey[:, 0].half().unbind()
    if not whole:
        return None
    levels = {level: torch.cat(parts) for level, parts in luma.items()}
    return _Looks(whole, levels, torch.cat(colour))


def _resized(images: Float[Tensor, "b c h w"], side: int) -> Float[Tensor, "b c s s"]:
    return interpolate(images, (side, side), mode="bilinear", antialias=True)


def _candidates(looks: _Looks) -> Int[np.ndarray, "l 2"]:
    """Return pairs of the most similar, by what is seen in grey, and in colours."""
    n, luma = len(looks.whole), looks.luma[COARSE]
    k = min(CANDIDATES, n - 2)
    grey = _unit(luma)
    bright = luma.flatten(1).norm(dim=1, keepdim=True).clamp_min(1e-3)
    colour = torch.cat([grey, 3 * looks.colour / bright], 1)
    both = [grey, colour] if not _are_grey(looks.colour).all() else [grey]
    others = [nearest_neighbors(d.numpy(), k + 1, measured=False).index[:, 1:] for d in both]
    rows = [np.arange(n).repeat(k)] * len(others)
    for end in ENDS if n <= MOST_CROPPED else ():
        cut = _unit(avg_pool2d(_cut(looks.luma[LEVELS[1]], SHARES[3], end)[:, None], 2))
        near = (cut @ grey.T).fill_diagonal_(-2).topk(k).indices
        rows, others = [*rows, np.arange(n).repeat(k)], [*others, near.numpy()]
    pairs = np.stack([np.concatenate(rows), np.concatenate([o.ravel() for o in others])], 1)
    pairs = np.unique(np.sort(pairs, 1), axis=0)
    is_large = np.array([min(one.shape) >= ENOUGH * COARSE for one in looks.whole])
    return pairs[(pairs[:, 0] != pairs[:, 1]) & is_large[pairs].all(1)]


def _unit(luma: Tensor) -> Float[Tensor, "n p"]:
    flat = luma.flatten(1)
    return flat / flat.norm(dim=1, keepdim=True).clamp_min(1e-6)


def _cut(luma: Float[Tensor, "n s s"], share: float, end: tuple[float, float]) -> Tensor:
    """Return pictures of which a share of each side is cut off: 0 at its start, 1 at its end."""
    down, right = (share * (1 - 2 * e) for e in end)
    theta = torch.tensor([[1 - share, 0, right], [0, 1 - share, down]]).expand(len(luma), 2, 3)
    grid = affine_grid(theta, [len(luma), 1, *luma.shape[1:]], align_corners=False)
    return grid_sample(luma[:, None], grid, padding_mode="border", align_corners=False)[:, 0]


def _compared(
    looks: _Looks, pairs: Int[np.ndarray, "l 2"]
) -> tuple[Float[np.ndarray, " l"], Bool[np.ndarray, " l"], Bool[np.ndarray, " l"]]:
    """Return what stays unexplained of each pair, which are as bright, which share their grain."""
    unexplained, is_bright = np.full(len(pairs), np.inf), np.zeros(len(pairs), bool)
    is_copy = np.zeros(len(pairs), bool)
    side = np.array([min(one.shape) for one in looks.whole])
    for start in range(0, len(pairs), AT_ONCE):
        some = pairs[start : start + AT_ONCE]
        level = _level(side[some].min(1))
        for wide in np.unique(level).tolist():
            rows = start + np.flatnonzero(level == wide)
            a, b = (torch.from_numpy(column) for column in pairs[rows].T)
            x, y = looks.luma[wide][a], looks.luma[wide][b]
            colours = looks.colour[a], looks.colour[b]
            unexplained[rows], is_bright[rows] = _unexplained(x, y, *colours)
            likely = np.flatnonzero(unexplained[rows] <= WITH_GRAIN)
            if len(likely):
                is_copy[rows[likely]] = _same_grain(x[likely], y[likely])
    return unexplained, is_bright, is_copy


def _level(side: Int[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
    """Return at how many pixels a side pictures of so many are compared."""
    return np.array(LEVELS)[(side[:, None] < ENOUGH * np.array(LEVELS)).sum(1)]


def _unexplained(
    x: Float[Tensor, "m s s"], y: Float[Tensor, "m s s"], p: Tensor, q: Tensor
) -> tuple[Float[np.ndarray, " m"], Bool[np.ndarray, " m"]]:
    """Return the part of contrast that a factor of brightness leaves, and whether that is 1.

    p, q: the colours of both, which count where both have some.
    """
    x, y = (avg_pool2d(v[:, None], v.shape[-1] // COARSE)[:, 0] for v in (x, y))
    factor = (x * y).sum((1, 2)) / (x * x).sum((1, 2)).clamp_min(1e-6)
    spread = torch.minimum(x.var((1, 2)) * factor**2, y.var((1, 2))).clamp_min(1e-9)
    away = ((y - factor[:, None, None] * x) ** 2).mean((1, 2))
    tints = ((q - factor[:, None] * p) ** 2).mean(1)
    have_colours = ~(_are_grey(p) | _are_grey(q))
    away = (away + 2 * tints * have_colours) / spread
    away[(factor <= 1 / BRIGHTER) | (factor >= BRIGHTER) | (spread < BLANK**2)] = np.inf
    return away.numpy(), ((factor - 1).abs() <= AS_BRIGHT).numpy()


def _same_grain(x: Float[Tensor, "m s s"], y: Float[Tensor, "m s s"]) -> Bool[np.ndarray, " m"]:
    grain, is_flat = zip(*(_grain(v) for v in (x, y)), strict=True)
    flat = (is_flat[0] & is_flat[1]).float()
    n = flat.sum((1, 2)).clamp_min(1)
    p, q = ((v - ((v * flat).sum((1, 2)) / n)[:, None, None]) * flat for v in grain)
    norm, both = (p.square().sum((1, 2)) * q.square().sum((1, 2))).sqrt(), p * q
    r = both.sum((1, 2)) / norm.clamp_min(1e-9)
    z = both.sum((1, 2)) / both.square().sum((1, 2)).sqrt().clamp_min(1e-9)
    return ((r >= LEAST_GRAIN) & (z >= SURE_GRAIN)).numpy()


def _grain(x: Float[Tensor, "m s s"]) -> tuple[Tensor, Tensor]:
    """Return each pixel less the mean of its neighbours, and whether it lies where it is flat."""
    middle = x[:, 1:-1, 1:-1]
    around = [x[:, :-2, 1:-1], x[:, 2:, 1:-1], x[:, 1:-1, :-2], x[:, 1:-1, 2:]]
    steep = torch.stack([(middle - v).abs() for v in around]).amax(0)
    usual, unit = FLAT * steep.flatten(1).quantile(0.25, 1), NO_EDGE * x.std((1, 2))
    is_edge = (steep > torch.minimum(usual, unit)[:, None, None]).float()
    is_flat = max_pool2d(is_edge[:, None], 3, 1, 1)[:, 0] == 0  # nor beside an edge
    return middle - torch.stack(around).mean(0), is_flat


def _by_chance(unexplained: Float[np.ndarray, " l"], power: float) -> float:
    """Return below what hardly any two different pictures agree."""
    known = np.sort(unexplained[(unexplained > LESS_ALIKE) & np.isfinite(unexplained)])
    if len(known) < KNOWN_BY:
        return 0.0
    highest = max(known[KNOWN_BY - 1], LEAST_RANGE * LESS_ALIKE)
    known = known[known <= highest]
    width, mean = np.log(highest / LESS_ALIKE), np.log(highest / known).mean()
    if mean >= width / 2:  # no fewer the more alike
        return 0.0
    # The likeliest power where none is seen below LESS_ALIKE, and how many there are with those.
    likely = root_scalar(
        lambda c: 1 / c - width / np.expm1(c * width) - mean, bracket=(1e-6, 100 / width)
    )
    n_less = len(known) / -np.expm1(-likely.root * width)
    return min(UNEXPLAINED, highest * (EXPECTED / n_less) ** (power / likely.root))


def _cropped(looks: _Looks, pairs: Int[np.ndarray, "l 2"], bound: float) -> Int[np.ndarray, "m 2"]:
    """Return pairs of a picture and a part of it."""
    tint, contrast = looks.tint, looks.luma[COARSE].var((1, 2))[pairs].amax(1)
    apart = (tint[pairs[:, 0]] - tint[pairs[:, 1]]).square().mean(1)
    is_grey = _are_grey(looks.colour)[pairs].any(1)
    pairs = pairs[((apart <= UNEXPLAINED * contrast) | is_grey).numpy()]
    both = np.concatenate([pairs, pairs[:, ::-1]])
    order, is_copy = both[:, 0].argsort(kind="stable"), np.zeros(len(both), bool)
    luma, coarse = looks.luma[2 * COARSE], looks.luma[COARSE].flatten(1)
    for start in range(0, len(luma), AT_ONCE):
        ends = np.searchsorted(both[order, 0], [start, start + AT_ONCE])
        rows = order[slice(*ends)]
        if not len(rows):
            continue
        some = luma[start : start + AT_ONCE]
        parts = torch.stack([avg_pool2d(_cut(some, *c)[:, None], 2).flatten(1) for c in CUTS], 1)
        x, y = parts[both[rows, 0] - start], coarse[both[rows, 1]][:, None]
        factor = (x * y).sum(2) / (x * x).sum(2).clamp_min(1e-6)
        away = (y - factor[..., None] * x).square().mean(2) / y.var(2).clamp_min(1e-6)
        best, chosen = away.min(1)
        likely = best.argsort().numpy()[: int((best <= UNEXPLAINED).sum())]
        once = np.unique(both[rows[likely], 0], return_index=True)[1]  # the best of each
        for i in likely[once]:
            is_copy[rows[i]] = _is_part(looks, both[rows[i]], bound, *CUTS[chosen[i]])
    return both[is_copy]


def _is_part(
    looks: _Looks, pair: Int[np.ndarray, " 2"], bound: float, share: float, end: tuple[float, float]
) -> bool:
    """Return whether the second is the first less about a share of each side."""
    x, y = (looks.whole[i].float() for i in pair)
    wide, parts = int(_level(np.array([min(y.shape)]))[0]), []
    for off in (-1, 0, 1):  # to the pixel
        cut = [round(share * size) + off for size in x.shape]
        top, left = (round(c * (1 - e)) for c, e in zip(cut, end, strict=True))
        part = x[top : x.shape[0] - cut[0] + top, left : x.shape[1] - cut[1] + left]
        parts.append(_resized(part[None, None], wide)[0])
    x, y = torch.cat(parts), looks.luma[wide][pair[[1] * len(parts)]]
    away, is_bright = _unexplained(x, y, *looks.tint[pair][:, None].expand(-1, len(x), -1))
    is_same = _same_grain(x, y) & (away <= WITH_GRAIN)
    return bool((is_same | (is_bright & (away <= bound))).any())
