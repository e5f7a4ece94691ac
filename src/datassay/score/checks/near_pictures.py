"""Copies of pictures that were made smaller, grey, darker, cropped a little, or compressed."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import affine_grid, avg_pool2d, grid_sample, interpolate, max_pool2d

from datassay.data.samples import SampleSet
from datassay.results import result
from datassay.score.checks.duplicates import EXACT_UP_TO, FEWEST, NO_LINKS, Links
from datassay.score.checks.images import picture_pixels
from datassay.score.neighbors.exact import PROBES
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
UNEXPLAINED = 0.06
WITH_GRAIN = 0.02
BRIGHTER = 1.67
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
LESS_ALIKE = 0.03
KNOWN_BY = (30, 120)
EXPECTED = 0.01
LEAST_RANGE = 4.0  # from the least alike of these to the most
AS_BRIGHT = 0.02
SAME_POWER = 1.5
OTHER_POWER = 2.0
# Parts of a side that are cut off, and where: 0 at its start, 1 at its end.
SHARES = [i / 96 for i in range(3, 10)]
ENDS = ((0, 0), (0, 1), (1, 0), (1, 1), (0.5, 0.5))
CUTS = [(share, end) for share in SHARES for end in ENDS]


@result
class _Views:
    """Pictures, n of them, reduced as they are compared."""

    grey: list[Tensor]  # [h, w] each, files at most 64 a side
    luma: dict[int, Tensor]  # [n, s, s] of each level
    colour: Float[Tensor, "n 72"]  # differences from grey, red and blue

    @property
    def tint(self) -> Float[Tensor, "n 2"]:
        """The mean colours, which a part of a picture has, too."""
        return self.colour.unflatten(1, (2, -1)).mean(2)


def _are_grey(colour: Float[Tensor, "n c"]) -> Bool[Tensor, " n"]:
    return colour.abs().mean(1) < GREY


def near_pictures(*sets: SampleSet | None) -> Links:
    """Return pairs of pictures of which one is a copy of the other, changed a little.

    The most similar pictures are compared on a small scale, one also cropped by up to a tenth: of
    a copy a factor of brightness explains nearly all contrast, and the grain, what is seen away
    from edges, is the same. Without the same grain, as compression leaves it, pictures must agree
    better than chance lets any two different ones, by a power law fitted to pairs less alike. It is
    taken to a power of 1.5, or of 2 where brightness or frame differ: some classes vary less.

    Args:
        sets: samples, numbered through, or None; none is found among those that are no pictures,
            are blank, or have fewer than 11 pixels a side, or where there are more than 20 000.

    Returns:
        Positions; equal pictures among them.

    Cost: files are opened once; the nearest of n rows of 144 and 216 numbers, up to 4 000 pictures
    five times more; then about 2 ms a picture.
    Source: ours; the power law's likelihood is Hill's (1975), truncated.
    """
    present = [samples for samples in sets if samples is not None]
    is_many = sum(map(len, present)) > EXACT_UP_TO
    views = None
    if not is_many:
        views = _read_views(present)
    if views is None or len(views.grey) < FEWEST:
        return NO_LINKS
    pairs = _find_candidates(views)
    unexplained, is_bright, is_copy = _compare_pairs(views, pairs)
    bounds = [max(ROUNDED, _fit_chance_bound(unexplained, p)) for p in (SAME_POWER, OTHER_POWER)]
    is_copy |= unexplained <= np.where(is_bright, *bounds)
    return np.concatenate([pairs[is_copy], _find_cropped(views, pairs[~is_copy], bounds[1])])


def _read_views(sets: list[SampleSet]) -> _Views | None:
    """Return all pictures at the sizes and in the colours that are compared; None without any."""
    thumbnails = []
    colour = []
    luma: dict[int, list[Tensor]] = {level: [] for level in LEVELS}
    for samples in sets:
        for pixels in picture_pixels(samples):
            batch = torch.from_numpy(np.ascontiguousarray(pixels)).float()
            if batch.shape[1] == 1:
                batch = batch.expand(-1, 3, -1, -1)
            grey = torch.einsum("bchw,c->bhw", batch, torch.tensor(LUMA))[:, None]
            for level in LEVELS:
                luma[level].append(_resize(grey, level)[:, 0])
            colour.append(_resize((batch - grey)[:, [0, 2]], COLOURS).flatten(1))
            thumbnails += grey[:, 0].half().unbind()
    if not thumbnails:
        return None
    return _Views(thumbnails, {s: torch.cat(v) for s, v in luma.items()}, torch.cat(colour))


def _resize(images: Float[Tensor, "b c h w"], side: int) -> Float[Tensor, "b c s s"]:
    return interpolate(images, (side, side), mode="bilinear", antialias=True)


def _find_candidates(views: _Views) -> Links:
    """Return pairs of the most similar pictures, by their grey values and by their colours."""
    n = len(views.grey)
    luma = views.luma[COARSE]
    k = min(CANDIDATES, n - 2)
    grey = _normalize(luma)
    bright = luma.flatten(1).norm(dim=1, keepdim=True).clamp_min(1e-3)
    colour = torch.cat([grey, 3 * views.colour / bright], 1)
    vectors = [grey]
    if not _are_grey(views.colour).all():
        vectors = [grey, colour]
    neighbors = [nearest_neighbors(v.numpy(), k + 1, probes=PROBES).index[:, 1:] for v in vectors]
    rows = [np.arange(n).repeat(k)] * len(neighbors)
    for end in ENDS if n <= MOST_CROPPED else ():
        cut = _normalize(avg_pool2d(_crop(views.luma[LEVELS[1]], SHARES[3], end)[:, None], 2))
        similar = (cut @ grey.T).fill_diagonal_(-2).topk(k).indices
        rows = [*rows, np.arange(n).repeat(k)]
        neighbors = [*neighbors, similar.numpy()]
    pairs = np.stack([np.concatenate(rows), np.concatenate([o.ravel() for o in neighbors])], 1)
    pairs = np.unique(np.sort(pairs, 1), axis=0)
    is_large = np.array([min(view.shape) >= ENOUGH * COARSE for view in views.grey])
    return pairs[(pairs[:, 0] != pairs[:, 1]) & is_large[pairs].all(1)]


def _normalize(luma: Tensor) -> Float[Tensor, "n p"]:
    flat = luma.flatten(1)
    return flat / flat.norm(dim=1, keepdim=True).clamp_min(1e-6)


def _crop(luma: Float[Tensor, "n s s"], share: float, end: tuple[float, float]) -> Tensor:
    """Cut a share of each side off pictures, at its start where `end` is 0, at its end where 1."""
    shift_y, shift_x = (share * (1 - 2 * e) for e in end)
    theta = torch.tensor([[1 - share, 0, shift_x], [0, 1 - share, shift_y]]).expand(len(luma), 2, 3)
    grid = affine_grid(theta, [len(luma), 1, *luma.shape[1:]], align_corners=False)
    return grid_sample(luma[:, None], grid, padding_mode="border", align_corners=False)[:, 0]


def _compare_pairs(
    views: _Views, pairs: Links
) -> tuple[Float[np.ndarray, " l"], Bool[np.ndarray, " l"], Bool[np.ndarray, " l"]]:
    """Return of each pair the contrast unexplained, whether equally bright, whether copies."""
    unexplained = np.full(len(pairs), np.inf)
    is_bright = np.zeros(len(pairs), bool)
    is_copy = np.zeros(len(pairs), bool)
    side = np.array([min(view.shape) for view in views.grey])
    for start in range(0, len(pairs), AT_ONCE):
        batch = pairs[start : start + AT_ONCE]
        level = _choose_level(side[batch].min(1))
        for size in np.unique(level).tolist():
            rows = start + np.flatnonzero(level == size)
            a, b = (torch.from_numpy(column) for column in pairs[rows].T)
            x, y = views.luma[size][a], views.luma[size][b]
            colours = views.colour[a], views.colour[b]
            unexplained[rows], is_bright[rows] = _fit_brightness(x, y, *colours)
            candidates = np.flatnonzero(unexplained[rows] <= WITH_GRAIN)
            if len(candidates):
                is_copy[rows[candidates]] = _has_same_grain(x[candidates], y[candidates])
    return unexplained, is_bright, is_copy


def _choose_level(side: Int[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
    """Return the level, in pixels a side, at which pictures of each side are compared."""
    return np.array(LEVELS)[(side[:, None] < ENOUGH * np.array(LEVELS)).sum(1)]


def _fit_brightness(
    x: Float[Tensor, "m s s"], y: Float[Tensor, "m s s"], p: Tensor, q: Tensor
) -> tuple[Float[np.ndarray, " m"], Bool[np.ndarray, " m"]]:
    """Return the part of contrast that a factor of brightness leaves, and whether the factor is 1.

    p, q: the colours of both, which count where both have some.
    """
    x, y = (avg_pool2d(v[:, None], v.shape[-1] // COARSE)[:, 0] for v in (x, y))
    factor = (x * y).sum((1, 2)) / (x * x).sum((1, 2)).clamp_min(1e-6)
    spread = torch.minimum(x.var((1, 2)) * factor**2, y.var((1, 2))).clamp_min(1e-9)
    residual = ((y - factor[:, None, None] * x) ** 2).mean((1, 2))
    tints = ((q - factor[:, None] * p) ** 2).mean(1)
    have_colours = ~(_are_grey(p) | _are_grey(q))
    residual = (residual + 2 * tints * have_colours) / spread
    residual[(factor <= 1 / BRIGHTER) | (factor >= BRIGHTER) | (spread < BLANK**2)] = np.inf
    return residual.numpy(), ((factor - 1).abs() <= AS_BRIGHT).numpy()


def _has_same_grain(x: Float[Tensor, "m s s"], y: Float[Tensor, "m s s"]) -> Bool[np.ndarray, " m"]:
    grain, is_flat = zip(*(_compute_grain(v) for v in (x, y)), strict=True)
    flat = (is_flat[0] & is_flat[1]).float()
    n = flat.sum((1, 2)).clamp_min(1)
    p, q = ((v - ((v * flat).sum((1, 2)) / n)[:, None, None]) * flat for v in grain)
    norm = (p.square().sum((1, 2)) * q.square().sum((1, 2))).sqrt()
    product = p * q
    r = product.sum((1, 2)) / norm.clamp_min(1e-9)
    z = product.sum((1, 2)) / product.square().sum((1, 2)).sqrt().clamp_min(1e-9)
    return ((r >= LEAST_GRAIN) & (z >= SURE_GRAIN)).numpy()


def _compute_grain(x: Float[Tensor, "m s s"]) -> tuple[Tensor, Tensor]:
    """Return inner pixels less their four neighbours' mean, and which lie in flat places."""
    middle = x[:, 1:-1, 1:-1]
    around = [x[:, :-2, 1:-1], x[:, 2:, 1:-1], x[:, 1:-1, :-2], x[:, 1:-1, 2:]]
    steep = torch.stack([(middle - v).abs() for v in around]).amax(0)
    usual = FLAT * steep.flatten(1).quantile(0.25, 1)
    unit = NO_EDGE * x.std((1, 2))
    is_edge = (steep > torch.minimum(usual, unit)[:, None, None]).float()
    is_flat = max_pool2d(is_edge[:, None], 3, 1, 1)[:, 0] == 0  # nor beside an edge
    return middle - torch.stack(around).mean(0), is_flat


def _fit_chance_bound(unexplained: Float[np.ndarray, " l"], power: float) -> float:
    """Return the unexplained part of contrast below which hardly any two different pictures lie."""
    tail = np.sort(unexplained[(unexplained > LESS_ALIKE) & np.isfinite(unexplained)])
    # Copies that were cropped, too, lie among the nearest: further pairs tell that there are few.
    n_used = [n for n in KNOWN_BY if n <= len(tail)]
    return max((_fit_tail(tail, tail[n - 1], power) for n in n_used), default=0.0)


def _fit_tail(tail: Float[np.ndarray, " l"], highest: float, power: float) -> float:
    """Return the bound by pairs up to the highest of `tail`, which ascends."""
    highest = max(highest, LEAST_RANGE * LESS_ALIKE)
    tail = tail[tail <= highest]
    width = np.log(highest / LESS_ALIKE)
    mean = np.log(highest / tail).mean()
    if mean >= width / 2:  # no fewer the more alike
        return 0.0
    from scipy.optimize import root_scalar  # slow to import

    # The likeliest power where none is seen below LESS_ALIKE, and how many there are with those.
    fit = root_scalar(
        lambda c: 1 / c - width / np.expm1(c * width) - mean, bracket=(1e-6, 100 / width)
    )
    n_less = len(tail) / -np.expm1(-fit.root * width)
    return min(UNEXPLAINED, highest * (EXPECTED / n_less) ** (power / fit.root))


def _find_cropped(views: _Views, pairs: Links, bound: float) -> Int[np.ndarray, "m 2"]:
    """Return the pairs of which the second picture is a part of the first."""
    tint = views.tint
    contrast = views.luma[COARSE].var((1, 2))[pairs].amax(1)
    tint_distance = (tint[pairs[:, 0]] - tint[pairs[:, 1]]).square().mean(1)
    is_grey = _are_grey(views.colour)[pairs].any(1)
    pairs = pairs[((tint_distance <= UNEXPLAINED * contrast) | is_grey).numpy()]
    ordered = np.concatenate([pairs, pairs[:, ::-1]])
    order = ordered[:, 0].argsort(kind="stable")
    is_copy = np.zeros(len(ordered), bool)
    luma = views.luma[2 * COARSE]
    coarse = views.luma[COARSE].flatten(1)
    for start in range(0, len(luma), AT_ONCE):
        ends = np.searchsorted(ordered[order, 0], [start, start + AT_ONCE])
        rows = order[slice(*ends)]
        if not len(rows):
            continue
        batch = luma[start : start + AT_ONCE]
        parts = torch.stack([avg_pool2d(_crop(batch, *c)[:, None], 2).flatten(1) for c in CUTS], 1)
        x = parts[ordered[rows, 0] - start]
        y = coarse[ordered[rows, 1]][:, None]
        factor = (x * y).sum(2) / (x * x).sum(2).clamp_min(1e-6)
        residual = (y - factor[..., None] * x).square().mean(2) / y.var(2).clamp_min(1e-6)
        smallest, cut_idx = residual.min(1)
        # The best fits of each picture are looked at once more, to the pixel.
        candidates = smallest.argsort().numpy()[: int((smallest <= UNEXPLAINED).sum())]
        first_idx = np.unique(ordered[rows[candidates], 0], return_index=True)[1]  # best of each
        for i in candidates[first_idx]:
            is_copy[rows[i]] = _is_part(views, ordered[rows[i]], bound, *CUTS[cut_idx[i]])
    return ordered[is_copy]


def _is_part(
    views: _Views, pair: Int[np.ndarray, " 2"], bound: float, share: float, end: tuple[float, float]
) -> bool:
    """Return whether the second picture is the first without about a share of each side."""
    x, y = (views.grey[i].float() for i in pair)
    level = int(_choose_level(np.array([min(y.shape)]))[0])
    crops = []
    for off in (-1, 0, 1):  # to the pixel
        cut = [round(share * size) + off for size in x.shape]
        top, side = (round(c * (1 - e)) for c, e in zip(cut, end, strict=True))
        crop = x[top : x.shape[0] - cut[0] + top, side : x.shape[1] - cut[1] + side]
        crops.append(_resize(crop[None, None], level)[0])
    x = torch.cat(crops)
    y = views.luma[level][pair[[1] * len(crops)]]
    residual, is_bright = _fit_brightness(x, y, *views.tint[pair][:, None].expand(-1, len(x), -1))
    is_same = _has_same_grain(x, y) & (residual <= WITH_GRAIN)
    return bool((is_same | (is_bright & (residual <= bound))).any())
