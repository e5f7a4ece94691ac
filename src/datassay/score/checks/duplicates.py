"""Equal rows and groups of near duplicates, by codes that say which values are equal."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from datassay.errors import install
from datassay.results import result
from datassay.score.checks.codes import RowCodes
from datassay.score.checks.texts import text_links
from datassay.score.neighbors.exact import PROBES, nearest_exact, rank_candidates
from datassay.score.neighbors.search import nearest_neighbors

K = 10  # neighbours whose mean distance says how alone a row is
REACH = 20  # neighbours that are compared; groups of more are searched for otherwise
FEWEST = 12  # different rows that distances can be judged by
# Rows beyond which neighbours are approximate where faiss is installed, and else those of a sample.
EXACT_UP_TO, WITHOUT_FAISS = 20_000, 100_000
FEW_PROBES = 4  # cells that find copies as eight do; the nearest of all may be in others
# Shares of false groups that are accepted (Benjamini and Hochberg): rows that differ in one column,
# and rows that lie close in all.
ONE_COLUMN, ALL_COLUMNS = 0.05, 0.02
APART = 3.0  # times its width from all others lies a group of three or more; less is a cluster
LARGEST = 0.05  # part of all rows that a group of more than REACH + 1 may be: more is a cluster
# Chance that gives a share q of the rows a partner one column apart gives q²/2 two (Poisson).
# Where fewer than this part of q²/2 have two, the pairs are no accident, unless columns that know
# nothing of each other make a tenth as many; none is told where they make half as many.
CROWDED, INDEPENDENT = 0.5, 0.1
FEWEST_COLUMNS = 3
# Standard deviation of a column in robust widths from which it is looked at by its own, too: that
# of a normal column is .8, since asinh pulls tails in.
UNEVEN = 1.0
NO_LINKS = np.zeros((0, 2), int)
# Of all rows: where so many are equal by chance some are close by chance, too, but not so many.
MANY_EQUAL, MANY_CLOSE = 0.05, 0.15
LUMP = 10.0  # members so many times nearer to each other than the group is wide are one
MOST_JUDGED = 200  # rows that tell what chance does
JUDGED = 8  # steps of agreement that tell what chance does
OUTLYING = 10.0  # steps beyond so many mean steps lead out of a group


@result
class Duplicates:
    """Which rows repeat others.

    Attributes:
        group: [n], rows equal in all columns share a number from 0; −1: no other row is equal.
        near: [n], near duplicates share a number from 0, also with rows equal to them; −1: none.
        pairs: [m, 2], the first of each such group with every other; of equal rows the first stands
            for all.
        one_column: [m], whether the two differ in one column only; never of arrays.
        natural: whether equal rows are nothing unusual: at least half as many rows differ from
            another in one column only, without being a near duplicate.
        nearest: [n], position of the nearest other row, an equal one first; −1: not searched for.
        distance: [n], to it, in robust standard deviations (1 for another word); nan likewise.
        loneliness: [n], mean distance to the ten nearest different rows; nan likewise.
        unsearched: what was not looked for, and the remedy; empty where all was.
    """

    group: Int[np.ndarray, " n"]
    near: Int[np.ndarray, " n"]
    pairs: Int[np.ndarray, "m 2"]
    one_column: Bool[np.ndarray, " m"]
    natural: bool
    nearest: Int[np.ndarray, " n"]
    distance: Float[np.ndarray, " n"]
    loneliness: Float[np.ndarray, " n"]
    unsearched: str


@result
class _Near:
    """Different rows: where they lie, their neighbours, and those one column apart."""

    places: Float[np.ndarray, "u m"]
    numbers: Float[np.ndarray, "u _"]  # places without words
    index: Int[np.ndarray, "u k"]
    distance: Float[np.ndarray, "u k"]
    alone: Float[np.ndarray, "u k"]  # distances by numbers alone
    apart: Int[np.ndarray, "u 2"]
    n_apart: Int[np.ndarray, " u"]


def duplicates(rows: RowCodes) -> Duplicates:
    """Equal rows by their hashes; near duplicates by how far a group lies from all other rows.

    g rows that are each other's nearest g − 1 are near duplicates where the next row is much
    further than they are from each other. How much further chance puts it is read off the steps
    from each neighbour to the next: those of an ordered sample are exponential and 1/j as long from
    the jth on, whatever the data's dimension D (Rényi 1953), so a distance ρ times the diameter has
    the chance ρ^(−D (g − 1)). Three or more must also lie three diameters apart; more than 21 ten,
    and be at most a twentieth of all rows. Rows that differ in one column only are near duplicates
    where that is no accident: where such pairs hardly ever share a row, or where the values in
    which they agree are much rarer than those shared with the next most alike row. Where a
    twentieth of all rows are equal by chance, close groups must hold 15 % of all.

    Returns:
        Groups, pairs, neighbours. Above 100 000 different rows without faiss
        (`datassay[neighbors]`) neighbours are those of a random 100 000, among these; of fewer than
        12 rows none. Copies about as far from each
        other as other rows are, as at a hundredth of a deviation in two columns, are not told.

    Cost: a sort of n a column, and the neighbours of the different rows: n² m / 2 float32
    operations to 20 000 of them, then about 12 n^1.5 m by faiss; again where robust widths of
    columns and standard deviations tell two stories.
    Source: ours; accepted by Benjamini and Hochberg (1995).
    """
    # A random 64-bit number a value; sums over columns are a row's hash, with any column taken.
    random, keys = np.random.default_rng(0), np.empty(rows.codes.shape, np.uint64)
    for column, code in enumerate(rows.codes.T):
        values = random.integers(2**64, size=int(code.max(initial=0)) + 1, dtype=np.uint64)
        keys[:, column] = values[code]
    total = keys.sum(1, dtype=np.uint64)
    _, first, inverse, counts = np.unique(
        total, return_index=True, return_inverse=True, return_counts=True
    )
    repeated = np.cumsum(counts > 1) - 1
    group = np.where(counts[inverse] > 1, repeated[inverse], -1)
    some = _searched(len(first))
    different, share = first[some], len(some) / len(first)
    apart = np.setdiff1d(np.arange(keys.shape[1]), list(rows.texts))
    known = rows.words, keys[different][:, apart], total[different]
    near = _near(rows.places[different], *known)
    links = _one_column(rows.codes[different], near)
    one_edit = np.isin(np.arange(len(some)), links)
    equal = (group >= 0).sum()
    natural = bool(2 * ((near.n_apart > 0) & ~one_edit).sum() >= equal * share > 0)
    close = [_close(near), _large(near)]
    if rows.places is not rows.plain and (rows.places.std(0)[~rows.words] > UNEVEN).any():
        plain = _near(rows.plain[different], *known, only_close=True)
        close += [_close(plain), _large(plain)]
    by_chance = natural and equal >= MANY_EQUAL * len(group)
    n_close = len(np.unique(np.concatenate(close)))
    if not by_chance or n_close >= MANY_CLOSE * len(group) * share:
        links = np.concatenate([links, *close])
    if rows.texts:
        texts = {column: words[different] for column, words in rows.texts.items()}
        links = np.concatenate([links, text_links(rows.codes[different], texts, near.index[:, :K])])
    member, pairs = _joined(different[links], len(inverse))
    differ = (rows.codes[pairs[:, 0]] != rows.codes[pairs[:, 1]]).sum(1)
    own, last = np.arange(len(inverse)), np.full(len(first), -1)
    nearest, distance, loneliness = (np.full(len(first), v) for v in (-1, np.nan, np.nan))
    if near.index.shape[1]:
        nearest[some], distance[some] = different[near.index[:, 0]], near.distance[:, 0]
        loneliness[some] = near.distance[:, :K].mean(1)
    last[inverse] = own  # of equal rows the last one
    repeated = last[inverse] != first[inverse]
    other = np.where(own == first[inverse], last[inverse], first[inverse])
    return Duplicates(
        group, member[first[inverse]], pairs, (differ == 1) & bool(rows.names), natural,
        np.where(repeated, other, nearest[inverse]), np.where(repeated, 0.0, distance[inverse]),
        loneliness[inverse], _unsearched(len(some) * bool(near.index.shape[1]), len(first)),
    )  # fmt: skip


def with_near(outcome: Duplicates, links: Int[np.ndarray, "l 2"]) -> Duplicates:
    """Return the same with further pairs of near duplicates."""
    own = np.arange(len(outcome.group))
    known = np.where(outcome.group < 0, -1 - own, outcome.group)
    _, start, inverse = np.unique(known, return_index=True, return_inverse=True)
    first = start[inverse]  # of equal rows, which stands for all
    links = first[links[first[links[:, 0]] != first[links[:, 1]]]]
    if not len(links):
        return outcome
    near, pairs = _joined(np.concatenate([outcome.pairs, links]), len(own))
    return replace(outcome, near=near[first], pairs=pairs, one_column=np.zeros(len(pairs), bool))


def _searched(n: int) -> Int[np.ndarray, " s"]:
    """Return the different rows whose neighbours are searched for: all, or a sample."""
    if n <= WITHOUT_FAISS or find_spec("faiss") is not None:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, WITHOUT_FAISS, replace=False))


def _unsearched(n_searched: int, n: int) -> str:
    if not n_searched:
        return (
            "Neither outliers nor near duplicates were looked for: that takes "
            f"{FEWEST} rows that differ in what can be compared."
        )
    if n_searched == n:
        return ""
    return (
        f"Outliers and near duplicates were looked for among {n_searched:,} of {n:,} different "
        f"rows, drawn at random; equal rows among all. {install('neighbors')} searches all."
    )


def _joined(
    links: Int[np.ndarray, "l 2"], n: int
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, "m 2"]]:
    """Rows that links join, also in chains: their group's number, and its first with each other."""
    graph = coo_array((np.ones(len(links)), tuple(links.T)), shape=(n, n))
    label = connected_components(graph, directed=False)[1]
    _, start, inverse, size = np.unique(
        label, return_index=True, return_inverse=True, return_counts=True
    )
    others = np.flatnonzero((size[inverse] > 1) & (start[inverse] != np.arange(n)))
    pairs = np.stack([start[inverse[others]], others], 1)
    number = np.where(size > 1, np.cumsum(size > 1) - 1, -1)
    return number[inverse], pairs[np.lexsort(pairs.T[::-1])]


def _near(
    places: Float[np.ndarray, "u m"],
    words: Bool[np.ndarray, " m"],
    keys: np.ndarray,
    total: np.ndarray,
    *,
    only_close: bool = False,
) -> _Near:
    # only_close: what is further by all columns than the last neighbour by numbers may be missing.
    n, d = keys.shape
    apart, n_apart = np.full((n, 2), -1), np.zeros(n, int)
    for column in range(d if d >= FEWEST_COLUMNS else 0):
        without = total - keys[:, column]
        order = without.argsort(kind="stable")
        same = without[order][1:] == without[order][:-1]
        ahead, behind = order[1:][same], order[:-1][same]
        for these, others in ((ahead, behind), (behind, ahead)):
            apart[these, np.minimum(n_apart[these], 1)] = others
            n_apart[these] += 1
    if n < FEWEST or not places.shape[1]:
        none = np.zeros((n, 0))
        return _Near(places, places, none.astype(int), none, none, apart, n_apart)
    approximate = n > EXACT_UP_TO and find_spec("faiss") is not None
    search, reach = "approximate" if approximate else "exact", min(REACH + 1, n - 1)
    numbers, settings = places[:, ~words], {"search": search, "measured": False}
    only_close &= bool(words.any() and numbers.shape[1])
    probes = FEW_PROBES if only_close else PROBES
    x = numbers if only_close else places
    near = nearest_neighbors(x, reach, probes=probes, **settings)
    alone, index, distance = near.distance[:, 1:], near.index[:, 1:], near.distance[:, 1:]
    if not numbers.shape[1]:
        alone = np.zeros_like(alone)  # words alone have no distance to judge by
    elif only_close:  # of these the nearest are the nearest of all: words only add to a distance
        x, queries = torch.from_numpy(places).double(), torch.arange(n)
        nearest = rank_candidates(x, queries, torch.from_numpy(index), reach - 1)
        index, distance = nearest.index.int().numpy(), nearest.squared.sqrt().float().numpy()
        alone = alone.astype(np.float32)  # of many rows these are the most that is held
    elif words.any():
        alone = nearest_neighbors(numbers, reach, probes=FEW_PROBES, **settings)
        alone = alone.distance[:, 1:]
    return _Near(places, numbers, index, distance, alone, apart, n_apart)


def _one_column(codes: Int[np.ndarray, "u d"], near: _Near) -> Int[np.ndarray, "l 2"]:
    """Links of rows that differ in one column only, where that is no accident."""
    n, is_apart = len(codes), near.n_apart > 0
    # Rows that share no value with any, as noisy copies, say nothing of chance.
    shared = np.any([np.bincount(code)[code] > 1 for code in codes.T], 0)
    if not shared.any():
        return NO_LINKS
    m = shared.sum()
    same = np.array([np.square(np.bincount(code) / m).sum() for code in codes[shared].T])
    by_chance = m * (same.prod() / same).sum()  # partners of a row whose columns are independent
    if by_chance > near.n_apart[shared].mean() / 2:
        return NO_LINKS
    is_rare = (near.n_apart > 1).mean() <= CROWDED * is_apart.mean() ** 2 / 2
    if is_rare and by_chance <= INDEPENDENT * near.n_apart.mean():
        return np.stack([np.arange(n), near.apart[:, 0]], 1)[is_apart]
    return _rare_agreement(codes, near)


def _close(near: _Near) -> Int[np.ndarray, "l 2"]:
    """Links of groups that lie close in all columns, far from all others."""
    n, k = near.index.shape
    own, is_apart = np.arange(n), near.n_apart > 0
    if k < 3:
        return NO_LINKS
    tiny = np.finfo(np.float32).tiny
    inside, outside = (np.log(np.maximum(r, tiny)) for r in (near.distance, near.alone))
    step = outside[:, 1:] - inside[:, :-1]
    crowd = step <= np.log(APART)
    crowd[:, 0] = step[:, 0] <= 0
    crowd |= is_apart[:, None] | np.logical_or.accumulate(is_apart[near.index[:, :-1]], 1)
    for j in range(1, k - 1):  # copies among the members come in lumps, each of which counts once
        some = np.flatnonzero(~crowd[:, j])
        members = np.concatenate([own[some, None], near.index[some, : j + 1]], 1)
        lump = inside[members] < (inside[some, j] - np.log(LUMP))[:, None, None]
        step[some, j] *= (1 / (1 + lump.sum(2))).sum(1) - 1
    rate = _rate(-outside)
    for _ in range(2):
        # Of accidents each size is half as frequent as the one before, pairs the most.
        chance = np.where(crowd, 1.0, 2.0 ** np.arange(k - 1) * np.exp(-rate * step.clip(0)))
        links = _grouped(chance, near.index, ALL_COLUMNS)
        if not len(links):
            break
        # One of each group tells what chance does.
        some = near.numbers[np.setdiff1d(own, _joined(links, n)[1][:, 1])]
        if len(some) < FEWEST:
            break
        asked = torch.arange(0, len(some), -(-len(some) // MOST_JUDGED))
        alone = nearest_exact(torch.from_numpy(some).double(), asked, min(k + 1, len(some)))
        rate = _rate(-np.log(np.maximum(alone.squared[:, 1:].sqrt().numpy(), tiny)))
    return links


def _large(near: _Near) -> Int[np.ndarray, "l 2"]:
    """Links of groups larger than REACH: a few rows, no neighbour outside, far from all others."""
    n, k = near.index.shape
    if k < REACH:
        return NO_LINKS
    graph = coo_array((np.ones(n * k), (np.arange(n).repeat(k), near.index.ravel())), (n, n))
    label, links = connected_components(graph, connection="strong")[1], [NO_LINKS]
    leaves = np.unique(label[(label[near.index] != label[:, None]).any(1)])
    count = np.bincount(label)
    for c in np.setdiff1d(np.flatnonzero((count >= k) & (count <= LARGEST * n)), leaves):
        members = np.flatnonzero(label == c)
        away = np.linalg.norm(near.numbers - near.numbers[members[0]], axis=1)
        reach = np.linalg.norm(near.places[members] - near.places[members[0]], axis=1).max()
        away[members] = np.inf
        if away.min() > LUMP * reach:
            links.append(np.stack([np.full(len(members), members[0]), members], 1))
    return np.concatenate(links)


def _rare_agreement(codes: Int[np.ndarray, "u d"], near: _Near) -> Int[np.ndarray, "l 2"]:
    """Links of rows one column apart whose agreement is far rarer than with the next alike."""
    n = len(codes)
    candidates = np.sort(np.concatenate([near.index, near.apart], 1), 1)
    again = candidates < 0
    again[:, 1:] |= candidates[:, 1:] == candidates[:, :-1]
    agreement, differ = np.zeros(candidates.shape), np.zeros(candidates.shape, int)
    for code in codes.T:
        others = np.maximum(np.bincount(code)[code] - 2, 0.5)  # beside this row and its copy
        same = code[candidates] == code[:, None]
        agreement += same * np.log(n / others)[:, None]
        differ += ~same
    agreement[again] = -1.0
    order = np.argsort(-agreement, axis=1, kind="stable")
    if candidates.shape[1] < 3:
        return NO_LINKS
    values = (candidates, agreement, differ)
    candidates, depth, differ = (np.take_along_axis(one, order, 1) for one in values)
    # The copies of one row, each edited elsewhere, differ from each other in two columns.
    alike = np.logical_and.accumulate(differ[:, :-1] <= 2, 1) & (differ[:, :1] == 1)
    # Groups of three have their step where pairs have none, and so on.
    steps = -np.diff(depth)[:, 1:JUDGED].mean(0)
    rate = 1 / max(1.0, np.median(steps * np.arange(2, len(steps) + 2)))
    chance = 2.0 ** np.arange(alike.shape[1]) * np.exp(rate * np.diff(depth))
    chance = np.where(alike & (depth[:, 1:] >= 0), chance, 1.0)
    return _grouped(chance, candidates, ONE_COLUMN)


def _rate(depth: Float[np.ndarray, "u k"]) -> float:
    """Of the exponential steps from the second on, those out of groups left out."""
    step = (np.arange(2, depth.shape[1]) * -np.diff(depth)[:, 1:]).ravel()
    while (inside := step <= OUTLYING * step.mean()).sum() < len(step) and step.mean() > 0:
        step = step[inside]
    return float(1 / max(step.mean(), 1e-9))  # 0: all distances are equal


def _grouped(
    chance: Float[np.ndarray, "u j"], others: Int[np.ndarray, "u k"], share: float
) -> Int[np.ndarray, "l 2"]:
    """Accepted rows with the accepted of their first 1, 2, … others, as many as chance allows."""
    least, k = chance.min(1), chance.shape[1]
    accepted = _accepted(least, share)
    most = least[accepted].max(initial=-1.0)
    # Of three and more each member lies far from all others; by accident one of them often does.
    size = (k - np.argmax(chance[:, ::-1] <= most, 1))[:, None]
    within = (np.arange(k) < size) & accepted[:, None] & ((size == 1) | accepted[others[:, :k]])
    return np.stack([np.nonzero(within)[0], others[:, :k][within]], 1)


def _accepted(chance: Float[np.ndarray, " u"], share: float) -> Bool[np.ndarray, " u"]:
    """Those whose expected share of accidents is at most `share`."""
    ordered = np.sort(chance)
    fits = np.flatnonzero(ordered <= share * np.arange(1, len(chance) + 1) / len(chance))
    return chance <= (ordered[fits[-1]] if len(fits) else -1.0)
