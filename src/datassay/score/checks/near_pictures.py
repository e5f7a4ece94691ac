"""Copies of pictures that were made smaller, grey, darker, cropped a little, or compressed."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import affine_grid, avg_pool2d, grid_sample, interpolate, max_pool2d

from datassay.data.samples import SampleSet
from datassay.results import result
from datassay.score.checks.copies import NO_LINKS, Links
from datassay.score.checks.duplicates import EXACT_UP_TO, FEWEST
from datassay.score.checks.images import picture_pixels
from datassay.score.neighbors.exact import PROBES
from datassay.score.neighbors.search import nearest_neighbors

# Pixels a side at which pictures are compared: grain at the finest level that both have, contrast
# at the coarsest, colours at fewer, since compression keeps no more.
LEVELS = (48, 24, 12)
COARSE = LEVELS[-1]
COLOURS = 6
ENOUGH = 0.9  # of a level's pixels a side that a picture must have
LUMA = (0.299, 0.587, 0.114)  # weights of red, green and blue
CANDIDATES = 8  # most similar pictures that each is compared with
AT_ONCE = 200  # pictures, or pairs
MOST_CROPPED = 4000  # pictures of which cropped ones are looked for among all others
GREY = 0.02  # mean difference of colour from grey that a grey picture may have
# Part of a copy's contrast that a factor of brightness leaves unexplained: at most, and if only the
# same grain tells that it is a copy. The factor is at most BRIGHTER.
UNEXPLAINED = 0.06
WITH_GRAIN = 0.02
BRIGHTER = 1.67
BLANK = 0.01  # standard deviation of pixels below which there is nothing to compare
# Grain is compared away from edges: where neighbours differ at most FLAT times as in the flattest
# quarter, and by NO_EDGE of the picture's deviation.
FLAT, NO_EDGE = 3.0, 0.3
# The grain of copies: its least correlation, and the least z-score of its mean product, which a few
# places alone do not reach.
LEAST_GRAIN, SURE_GRAIN = 0.5, 4.0
ROUNDED = 2e-5  # part of the contrast that rounding to 8 bits leaves
# How alike different pictures are is fitted to pairs with more unexplained than LESS_ALIKE, by so
# many of the most alike; their range is LEAST_RANGE at least. EXPECTED is of false pairs.
LESS_ALIKE = 0.03
KNOWN_BY = (30, 120)
LEAST_RANGE = 4.0
EXPECTED = 0.01
AS_BRIGHT = 0.02  # difference of the factor from 1 of pictures as bright as each other
# Powers that the chance of a pair is taken to: with equal brightness and frame, and with another.
SAME_POWER = 1.5
OTHER_POWER = 2.0
# Parts of a side that are cut off, and where (y, x): 0 at its start, 1 at its end.
SHARES = [i / 96 for i in range(3, 10)]
ENDS = ((0, 0), (0, 1), (1, 0), (1, 1), (0.5, 0.5))
CUTS = [(share, end) for share in SHARES for end in ENDS]


@result
class _Views:
    """Pictures, n of them, reduced as they are compared."""

    grey: list[Tensor]  # [h, w] each, files at most 64 a side
    luma: dict[int, Tensor]  # [n, s, s] by level s
    colour: Float[Tensor, "n 72"]  # red less grey, then blue less grey, 6 × 6 each

    @property
    def tint(self) -> Float[Tensor, "n 2"]:
        """The mean of red and blue less grey, which a part of a picture shares."""
        return self.colour.unflatten(1, (2, -1)).mean(2)


def _are_grey(colour: Float[Tensor, "n c"]) -> Bool[Tensor, " n"]:
    return colour.abs().mean(1) < GREY


def near_pictures(*sets: SampleSet | None) -> Links:
    """Return pairs of pictures of which one is a slightly changed copy of the other.

    The most similar pictures are compared on a small scale, one also cropped by up to a tenth. A
    pair is a copy if a factor of brightness explains nearly all contrast, and either
    - the grain, what is seen away from edges, is the same; or
    - no two different pictures would agree so well by chance, by a power law fitted to pairs less
      alike. Since some classes vary less, it is taken to the power 1.5, or 2 if brightness or frame
      differ.

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
    unexplained, is_as_bright, is_copy = _compare_pairs(views, pairs)
    same_bound = max(ROUNDED, _fit_chance_bound(unexplained, SAME_POWER))
    other_bound = max(ROUNDED, _fit_chance_bound(unexplained, OTHER_POWER))
    is_copy |= unexplained <= np.where(is_as_bright, same_bound, other_bound)
    return np.concatenate([pairs[is_copy], _find_cropped(views, pairs[~is_copy], other_bound)])


def _read_views(sets: list[SampleSet]) -> _Views | None:
    """Return all pictures at the sizes that are compared, grey and colour; None without any."""
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
    """Return pairs of similar pictures: by grey values, by colours, or one being cropped."""
    n = len(views.grey)
    luma = views.luma[COARSE]
    k = min(CANDIDATES, n - 2)
    grey = _normalize(luma)
    vectors = [grey]
    if not _are_grey(views.colour).all():
        norm = luma.flatten(1).norm(dim=1, keepdim=True).clamp_min(1e-3)
        vectors.append(torch.cat([grey, 3 * views.colour / norm], 1))
    neighbors = [nearest_neighbors(v.numpy(), k + 1, probes=PROBES).index[:, 1:] for v in vectors]
    for end in ENDS if n <= MOST_CROPPED else ():
        cropped = _crop(views.luma[LEVELS[1]], SHARES[3], end)[:, None]
        similarity = _normalize(avg_pool2d(cropped, 2)) @ grey.T
        neighbors.append(similarity.fill_diagonal_(-2).topk(k).indices.numpy())
    rows = np.tile(np.arange(n).repeat(k), len(neighbors))
    pairs = np.stack([rows, np.concatenate([index.ravel() for index in neighbors])], 1)
    pairs = np.unique(np.sort(pairs, 1), axis=0)
    is_large = np.array([min(view.shape) >= ENOUGH * COARSE for view in views.grey])
    return pairs[(pairs[:, 0] != pairs[:, 1]) & is_large[pairs].all(1)]


def _normalize(luma: Tensor) -> Float[Tensor, "n p"]:
    """Return each picture's values as a vector of length 1."""
    flat = luma.flatten(1)
    return flat / flat.norm(dim=1, keepdim=True).clamp_min(1e-6)


def _crop(luma: Float[Tensor, "n s s"], share: float, end: tuple[float, float]) -> Tensor:
    """Return pictures cropped by `share` of each side and resized; end 0: cut at the start."""
    shift_y, shift_x = (share * (1 - 2 * e) for e in end)
    theta = torch.tensor([[1 - share, 0, shift_x], [0, 1 - share, shift_y]]).expand(len(luma), 2, 3)
    grid = affine_grid(theta, [len(luma), 1, *luma.shape[1:]], align_corners=False)
    return grid_sample(luma[:, None], grid, padding_mode="border", align_corners=False)[:, 0]


def _compare_pairs(
    views: _Views, pairs: Links
) -> tuple[Float[np.ndarray, " l"], Bool[np.ndarray, " l"], Bool[np.ndarray, " l"]]:
    """Return each pair's unexplained contrast, whether equally bright, whether of one grain."""
    unexplained = np.full(len(pairs), np.inf)
    is_as_bright = np.zeros(len(pairs), bool)
    is_copy = np.zeros(len(pairs), bool)
    side = np.array([min(view.shape) for view in views.grey])
    for start in range(0, len(pairs), AT_ONCE):
        batch = pairs[start : start + AT_ONCE]
        level = _choose_level(side[batch].min(1))
        for size in np.unique(level).tolist():
            rows = start + np.flatnonzero(level == size)
            a, b = (torch.from_numpy(column) for column in pairs[rows].T)
            x = views.luma[size][a]
            y = views.luma[size][b]
            colours = views.colour[a], views.colour[b]
            unexplained[rows], is_as_bright[rows] = _fit_brightness(x, y, *colours)
            candidates = np.flatnonzero(unexplained[rows] <= WITH_GRAIN)
            if len(candidates):
                is_copy[rows[candidates]] = _has_same_grain(x[candidates], y[candidates])
    return unexplained, is_as_bright, is_copy


def _choose_level(side: Int[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
    """Return the level at which pairs are compared, by the smaller picture's pixels a side."""
    return np.array(LEVELS)[(side[:, None] < ENOUGH * np.array(LEVELS)).sum(1)]


def _fit_brightness(
    x: Float[Tensor, "m s s"], y: Float[Tensor, "m s s"], p: Tensor, q: Tensor
) -> tuple[Float[np.ndarray, " m"], Bool[np.ndarray, " m"]]:
    """Return the share of contrast left after scaling x's brightness to y's, and if alike.

    The part is ∞ where the factor is too far from 1 or a picture blank. p, q: colours of x and y;
    they count if both have some.
    """
    x, y = (avg_pool2d(v[:, None], v.shape[-1] // COARSE)[:, 0] for v in (x, y))
    factor = (x * y).sum((1, 2)) / (x * x).sum((1, 2)).clamp_min(1e-6)
    spread = torch.minimum(x.var((1, 2)) * factor**2, y.var((1, 2))).clamp_min(1e-9)
    residual = ((y - factor[:, None, None] * x) ** 2).mean((1, 2))
    colour_residual = ((q - factor[:, None] * p) ** 2).mean(1)
    have_colours = ~(_are_grey(p) | _are_grey(q))
    residual = (residual + 2 * colour_residual * have_colours) / spread
    residual[(factor <= 1 / BRIGHTER) | (factor >= BRIGHTER) | (spread < BLANK**2)] = np.inf
    return residual.numpy(), ((factor - 1).abs() <= AS_BRIGHT).numpy()


def _has_same_grain(x: Float[Tensor, "m s s"], y: Float[Tensor, "m s s"]) -> Bool[np.ndarray, " m"]:
    """Return whether two pictures have the same pixel noise (grain) in flat areas."""
    grain, is_flat = zip(*(_compute_grain(v) for v in (x, y)), strict=True)
    flat = (is_flat[0] & is_flat[1]).float()
    n = flat.sum((1, 2)).clamp_min(1)
    x, y = ((v - ((v * flat).sum((1, 2)) / n)[:, None, None]) * flat for v in grain)
    norm = (x.square().sum((1, 2)) * y.square().sum((1, 2))).sqrt()
    product = x * y
    correlation = product.sum((1, 2)) / norm.clamp_min(1e-9)
    z_score = product.sum((1, 2)) / product.square().sum((1, 2)).sqrt().clamp_min(1e-9)
    return ((correlation >= LEAST_GRAIN) & (z_score >= SURE_GRAIN)).numpy()


def _compute_grain(x: Float[Tensor, "m s s"]) -> tuple[Tensor, Tensor]:
    """Return inner pixels minus their neighbours' mean, and a mask of flat areas."""
    pixel = x[:, 1:-1, 1:-1]
    neighbors = [x[:, :-2, 1:-1], x[:, 2:, 1:-1], x[:, 1:-1, :-2], x[:, 1:-1, 2:]]
    difference = torch.stack([(pixel - v).abs() for v in neighbors]).amax(0)
    flat_bound = FLAT * difference.flatten(1).quantile(0.25, 1)
    edge_bound = NO_EDGE * x.std((1, 2))
    is_edge = (difference > torch.minimum(flat_bound, edge_bound)[:, None, None]).float()
    is_flat = max_pool2d(is_edge[:, None], 3, 1, 1)[:, 0] == 0  # nor beside an edge
    return pixel - torch.stack(neighbors).mean(0), is_flat


def _fit_chance_bound(unexplained: Float[np.ndarray, " l"], power: float) -> float:
    """Return the unexplained contrast that different pictures hardly ever fall below."""
    # unexplained: of pairs, as `_fit_brightness` returns it. power: for classes that vary less.
    tail = np.sort(unexplained[(unexplained > LESS_ALIKE) & np.isfinite(unexplained)])
    # Cropped copies lie among the most alike and lower the bound: more pairs show they are few.
    n_used = [n for n in KNOWN_BY if n <= len(tail)]
    return max((_fit_tail(tail, tail[n - 1], power) for n in n_used), default=0.0)


def _fit_tail(tail: Float[np.ndarray, " l"], highest: float, power: float) -> float:
    """Return that bound by a power law fitted to sorted `tail`, LESS_ALIKE to `highest`."""
    highest = max(highest, LEAST_RANGE * LESS_ALIKE)
    tail = tail[tail <= highest]
    width = np.log(highest / LESS_ALIKE)
    mean = np.log(highest / tail).mean()
    if mean >= width / 2 * (1 - 1e-6):  # as many or more pairs the more alike: no power law
        return 0.0
    from scipy.optimize import root_scalar  # slow to import

    # The likeliest exponent, none being seen below LESS_ALIKE, and how many pairs there are with
    # those below it.
    exponent = 1 / max(mean, 1e-12)  # where all lie close to the highest, as of pictures of noise
    if mean > width / 100:
        bracket = (1e-6, 100 / width)
        exponent = root_scalar(
            lambda c: 1 / c - width / np.expm1(c * width) - mean, bracket=bracket
        ).root
    n_pairs = len(tail) / -np.expm1(-exponent * width)
    return min(UNEXPLAINED, highest * (EXPECTED / n_pairs) ** (power / exponent))


def _find_cropped(views: _Views, pairs: Links, bound: float) -> Int[np.ndarray, "m 2"]:
    """Return pairs (whole, part) in which the second picture is a crop of the first.

    The best of all cuts is looked for on a coarse scale, in both orders of each pair.
    """
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
        low, high = np.searchsorted(ordered[order, 0], [start, start + AT_ONCE])
        rows = order[low:high]  # pairs whose first picture is in the batch
        if not len(rows):
            continue
        batch = luma[start : start + AT_ONCE]
        parts = torch.stack(
            [avg_pool2d(_crop(batch, *cut)[:, None], 2).flatten(1) for cut in CUTS], 1
        )
        x = parts[ordered[rows, 0] - start]
        y = coarse[ordered[rows, 1]][:, None]
        factor = (x * y).sum(2) / (x * x).sum(2).clamp_min(1e-6)  # of brightness, [pairs, cuts]
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
    """Return whether the second picture is the first cropped by `share` of a side at `end`."""
    x, y = (views.grey[i].float() for i in pair)
    level = int(_choose_level(np.array([min(y.shape)]))[0])
    crops = []
    for offset in (-1, 0, 1):  # to the pixel
        cut_y, cut_x = (round(share * size) + offset for size in x.shape)
        y_start = round(cut_y * (1 - end[0]))
        x_start = round(cut_x * (1 - end[1]))
        crop = x[y_start : x.shape[0] - cut_y + y_start, x_start : x.shape[1] - cut_x + x_start]
        crops.append(_resize(crop[None, None], level)[0])
    x = torch.cat(crops)
    y = views.luma[level][pair[[1] * len(crops)]]
    tints = views.tint[pair][:, None].expand(-1, len(x), -1)
    unexplained, is_as_bright = _fit_brightness(x, y, *tints)
    has_same_grain = _has_same_grain(x, y) & (unexplained <= WITH_GRAIN)
    return bool((has_same_grain | (is_as_bright & (unexplained <= bound))).any())
