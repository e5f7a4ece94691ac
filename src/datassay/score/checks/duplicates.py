"""Equal rows and groups of near duplicates, by codes that say which values are equal."""

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
EXACT_UP_TO = 20_000
WITHOUT_FAISS = 100_000
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
Links = Int[np.ndarray, "l 2"]  # positions of two rows each
# Of all rows: where so many are equal by chance some are close by chance, too, but not so many.
MANY_EQUAL, MANY_CLOSE = 0.05, 0.15
LUMP = 10.0  # members so many times nearer to each other than the group is wide are one
MOST_JUDGED = 200  # rows that tell what chance does
JUDGED = 8  # steps of agreement that tell what chance does
OUTLYING = 10.0  # steps beyond so many mean steps lead out of a group


@result
class Duplicates:
    """Equal rows and near duplicates, and the nearest other row of each.

    Attributes:
        group: [n], rows equal in all columns share a number from 0; −1: no other row is equal.
        near: [n], near duplicates and rows equal to them share a number from 0; −1: none.
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
class _Neighbors:
    """The u different rows: where they lie, their neighbours, and rows one column apart."""

    places: Float[np.ndarray, "u m"]
    numbers: Float[np.ndarray, "u _"]  # places without words
    index: Int[np.ndarray, "u k"]
    distance: Float[np.ndarray, "u k"]
    number_distance: Float[np.ndarray, "u k"]  # to the k rows nearest by numbers
    partners: Int[np.ndarray, "u 2"]  # rows that differ in one column only; −1: none
    n_partners: Int[np.ndarray, " u"]


def duplicates(rows: RowCodes) -> Duplicates:
    """Find equal rows by hashes, near duplicates by how far a group lies from all other rows.

    g rows that are each other's nearest g − 1 are near duplicates where the next row is further off
    than chance explains. By chance the steps from each neighbour to the next are exponential, and
    1/j as long from the jth on, whatever the data's dimension D (Rényi 1953), so a distance ρ times
    the diameter has the chance ρ^(−D (g − 1)). The scale is read off the data's own steps. Three or
    more must also lie three diameters apart; more than 21 ten, and be at most a twentieth of all
    rows. Rows that differ in one column only are near duplicates where such pairs hardly ever share
    a row, or where the values in which they agree are much rarer than those shared with the next
    most alike row. Where a twentieth of all rows are equal by chance, close groups must hold 15 %.

    Returns:
        Groups, pairs, neighbours. Without faiss (`datassay[neighbors]`) those of more than 100 000
        different rows are searched for among a random 100 000; fewer than 12 have none. Copies as
        far apart as other rows, as at a hundredth of a deviation in two columns, are missed.

    Cost: a sort of n a column; for neighbours n² m / 2 float32 operations to 20 000 different rows,
    then about 12 n^1.5 m by faiss; twice where robust widths and standard deviations disagree.
    Source: ours; accepted by Benjamini and Hochberg (1995).
    """
    # A random 64-bit number a value; sums over columns are a row's hash, with any column taken.
    random = np.random.default_rng(0)
    hashes = np.empty(rows.codes.shape, np.uint64)
    for column, code in enumerate(rows.codes.T):
        values = random.integers(2**64, size=int(code.max(initial=0)) + 1, dtype=np.uint64)
        hashes[:, column] = values[code]
    row_hash = hashes.sum(1, dtype=np.uint64)
    _, first_idx, inverse, counts = np.unique(
        row_hash, return_index=True, return_inverse=True, return_counts=True
    )
    group = np.where(counts > 1, np.cumsum(counts > 1) - 1, -1)[inverse]
    searched = _choose_searched_rows(len(first_idx))
    distinct = first_idx[searched]
    share = len(searched) / len(first_idx)
    non_texts = np.setdiff1d(np.arange(hashes.shape[1]), list(rows.texts))
    search_inputs = rows.words, hashes[distinct][:, non_texts], row_hash[distinct]
    neighbors = _find_neighbors(rows.places[distinct], *search_inputs)
    links = _link_one_column(rows.codes[distinct], neighbors)
    one_edit = np.isin(np.arange(len(searched)), links)
    n_equal = (group >= 0).sum()
    natural = bool(2 * ((neighbors.n_partners > 0) & ~one_edit).sum() >= n_equal * share > 0)
    close = [_link_close_groups(neighbors), _link_large_groups(neighbors)]
    if rows.places is not rows.standardised and (rows.places.std(0)[~rows.words] > UNEVEN).any():
        standard = _find_neighbors(rows.standardised[distinct], *search_inputs, only_close=True)
        close += [_link_close_groups(standard), _link_large_groups(standard)]
    by_chance = natural and n_equal >= MANY_EQUAL * len(group)
    n_close = len(np.unique(np.concatenate(close)))
    if not by_chance or n_close >= MANY_CLOSE * len(group) * share:
        links = np.concatenate([links, *close])
    if rows.texts:
        texts = {column: words[distinct] for column, words in rows.texts.items()}
        similar = text_links(rows.codes[distinct], texts, neighbors.index[:, :K])
        links = np.concatenate([links, similar])
    member, pairs = _connect_rows(distinct[links], len(inverse))
    differ = (rows.codes[pairs[:, 0]] != rows.codes[pairs[:, 1]]).sum(1)
    row_idx = np.arange(len(inverse))
    last_idx = np.full(len(first_idx), -1)
    nearest, distance, loneliness = (np.full(len(first_idx), v) for v in (-1, np.nan, np.nan))
    if neighbors.index.shape[1]:
        nearest[searched] = distinct[neighbors.index[:, 0]]
        distance[searched] = neighbors.distance[:, 0]
        loneliness[searched] = neighbors.distance[:, :K].mean(1)
    last_idx[inverse] = row_idx  # of equal rows the last one
    first_row, last_row = first_idx[inverse], last_idx[inverse]
    equal_row = np.where(row_idx == first_row, last_row, first_row)
    n_searched = len(searched) * bool(neighbors.index.shape[1])
    return Duplicates(
        group, member[first_row], pairs, (differ == 1) & bool(rows.names), natural,
        np.where(group < 0, nearest[inverse], equal_row),
        np.where(group < 0, distance[inverse], 0.0),
        loneliness[inverse], _describe_unsearched(n_searched, len(first_idx)),
    )  # fmt: skip


def with_near(outcome: Duplicates, links: Links) -> Duplicates:
    """Return the duplicates with further pairs of near duplicates added."""
    row_idx = np.arange(len(outcome.group))
    group = np.where(outcome.group < 0, -1 - row_idx, outcome.group)
    _, start, inverse = np.unique(group, return_index=True, return_inverse=True)
    heads = start[inverse]  # of equal rows, which stands for all
    links = heads[links[heads[links[:, 0]] != heads[links[:, 1]]]]
    if not len(links):
        return outcome
    label, pairs = _connect_rows(np.concatenate([outcome.pairs, links]), len(row_idx))
    return replace(outcome, near=label[heads], pairs=pairs, one_column=np.zeros(len(pairs), bool))


def _choose_searched_rows(n: int) -> Int[np.ndarray, " s"]:
    """Choose the rows, of n different ones, whose neighbours are searched for: all or a sample."""
    if n <= WITHOUT_FAISS or find_spec("faiss") is not None:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, WITHOUT_FAISS, replace=False))


def _describe_unsearched(n_searched: int, n: int) -> str:
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


def _connect_rows(links: Links, n: int) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, "m 2"]]:
    """Return each row's group of linked rows, −1: none, and the pairs (first row, other row)."""
    graph = coo_array((np.ones(len(links)), tuple(links.T)), shape=(n, n))
    label = connected_components(graph, directed=False)[1]
    _, start, inverse, size = np.unique(
        label, return_index=True, return_inverse=True, return_counts=True
    )
    followers = np.flatnonzero((size[inverse] > 1) & (start[inverse] != np.arange(n)))
    pairs = np.stack([start[inverse[followers]], followers], 1)
    number = np.where(size > 1, np.cumsum(size > 1) - 1, -1)
    return number[inverse], pairs[np.lexsort(pairs.T[::-1])]


def _find_neighbors(
    places: Float[np.ndarray, "u m"],
    words: Bool[np.ndarray, " m"],
    hashes: np.ndarray,
    row_hash: np.ndarray,
    *,
    only_close: bool = False,
) -> _Neighbors:
    """Find each row's neighbours, and rows one column apart; `only_close` may miss far ones."""
    n, d = hashes.shape
    partners = np.full((n, 2), -1)
    n_partners = np.zeros(n, int)
    for column in range(d if d >= FEWEST_COLUMNS else 0):
        hash_without = row_hash - hashes[:, column]
        order = hash_without.argsort(kind="stable")
        is_equal = hash_without[order][1:] == hash_without[order][:-1]
        later = order[1:][is_equal]
        earlier = order[:-1][is_equal]
        for row, partner in ((later, earlier), (earlier, later)):
            partners[row, np.minimum(n_partners[row], 1)] = partner
            n_partners[row] += 1
    if n < FEWEST or not places.shape[1]:
        zeros = np.zeros((n, 0))
        return _Neighbors(places, places, zeros.astype(int), zeros, zeros, partners, n_partners)
    approximate = n > EXACT_UP_TO and find_spec("faiss") is not None
    search = "exact"
    if approximate:
        search = "approximate"
    reach = min(REACH + 1, n - 1)
    numbers = places[:, ~words]
    settings = {"search": search}
    only_close &= bool(words.any() and numbers.shape[1])
    probes = FEW_PROBES if only_close else PROBES
    x = numbers if only_close else places
    neighbors = nearest_neighbors(x, reach, probes=probes, **settings)
    index, distance = neighbors.index[:, 1:], neighbors.distance[:, 1:]
    number_distance = distance
    if not numbers.shape[1]:
        number_distance = np.zeros_like(distance)  # words alone have no distance to judge by
    elif only_close:  # of these the nearest are the nearest of all: words only add to a distance
        x = torch.from_numpy(places).double()
        queries = torch.arange(n)
        nearest = rank_candidates(x, queries, torch.from_numpy(index), reach - 1)
        index = nearest.index.int().numpy()
        distance = nearest.squared.sqrt().float().numpy()
        number_distance = number_distance.astype(np.float32)  # of many rows the largest array
    elif words.any():
        by_numbers = nearest_neighbors(numbers, reach, probes=FEW_PROBES, **settings)
        number_distance = by_numbers.distance[:, 1:]
    return _Neighbors(places, numbers, index, distance, number_distance, partners, n_partners)


def _link_one_column(codes: Int[np.ndarray, "u d"], neighbors: _Neighbors) -> Links:
    """Link rows that differ in one column only, where that is no accident."""
    n = len(codes)
    has_partner = neighbors.n_partners > 0
    # Rows that share no value with any, as noisy copies, say nothing of chance.
    shares_value = np.any([np.bincount(code)[code] > 1 for code in codes.T], 0)
    if not shares_value.any():
        return NO_LINKS
    m = shares_value.sum()
    p_equal = np.array([np.square(np.bincount(code) / m).sum() for code in codes[shares_value].T])
    by_chance = m * (p_equal.prod() / p_equal).sum()  # partners of a row of independent columns
    if by_chance > neighbors.n_partners[shares_value].mean() / 2:
        return NO_LINKS
    is_rare = (neighbors.n_partners > 1).mean() <= CROWDED * has_partner.mean() ** 2 / 2
    if is_rare and by_chance <= INDEPENDENT * neighbors.n_partners.mean():
        return np.stack([np.arange(n), neighbors.partners[:, 0]], 1)[has_partner]
    return _link_rare_agreement(codes, neighbors)


def _link_close_groups(neighbors: _Neighbors) -> Links:
    """Link rows whose group lies close in all columns and far from all other rows."""
    index = neighbors.index
    has_partner = neighbors.n_partners > 0
    n, k = index.shape
    if k < 3:
        return NO_LINKS
    tiny = np.finfo(np.float32).tiny
    inside = np.log(np.maximum(neighbors.distance, tiny))
    outside = np.log(np.maximum(neighbors.number_distance, tiny))
    step = outside[:, 1:] - inside[:, :-1]
    crowd = step <= np.log(APART)
    crowd[:, 0] = step[:, 0] <= 0
    crowd |= has_partner[:, None] | np.logical_or.accumulate(has_partner[index[:, :-1]], 1)
    for j in range(1, k - 1):  # copies among the members come in lumps, each of which counts once
        candidates = np.flatnonzero(~crowd[:, j])
        members = np.concatenate([candidates[:, None], index[candidates, : j + 1]], 1)
        lump = inside[members] < (inside[candidates, j] - np.log(LUMP))[:, None, None]
        step[candidates, j] *= (1 / (1 + lump.sum(2))).sum(1) - 1
    rate = _fit_step_rate(-outside)
    for _ in range(2):
        # Of accidents each size is half as frequent as the one before, pairs the most.
        chance = np.where(crowd, 1.0, 2.0 ** np.arange(k - 1) * np.exp(-rate * step.clip(0)))
        links = _link_accepted_rows(chance, index, ALL_COLUMNS)
        if not len(links):
            break
        # One of each group tells what chance does.
        firsts = neighbors.numbers[np.setdiff1d(np.arange(n), _connect_rows(links, n)[1][:, 1])]
        if len(firsts) < FEWEST:
            break
        queries = torch.arange(0, len(firsts), -(-len(firsts) // MOST_JUDGED))
        nearest = nearest_exact(torch.from_numpy(firsts).double(), queries, min(k + 1, len(firsts)))
        rate = _fit_step_rate(-np.log(np.maximum(nearest.squared[:, 1:].sqrt().numpy(), tiny)))
    return links


def _link_large_groups(neighbors: _Neighbors) -> Links:
    """Link groups of more than REACH rows with no neighbour outside and far from all others."""
    n, k = neighbors.index.shape
    if k < REACH:
        return NO_LINKS
    graph = coo_array((np.ones(n * k), (np.arange(n).repeat(k), neighbors.index.ravel())), (n, n))
    label = connected_components(graph, connection="strong")[1]
    links = [NO_LINKS]
    leaves = np.unique(label[(label[neighbors.index] != label[:, None]).any(1)])
    count = np.bincount(label)
    for component in np.setdiff1d(np.flatnonzero((count >= k) & (count <= LARGEST * n)), leaves):
        members = np.flatnonzero(label == component)
        distance = np.linalg.norm(neighbors.numbers - neighbors.numbers[members[0]], axis=1)
        offset = neighbors.places[members] - neighbors.places[members[0]]
        distance[members] = np.inf
        if distance.min() > LUMP * np.linalg.norm(offset, axis=1).max():
            links.append(np.stack([np.full(len(members), members[0]), members], 1))
    return np.concatenate(links)


def _link_rare_agreement(codes: Int[np.ndarray, "u d"], neighbors: _Neighbors) -> Links:
    """Link rows one column apart that share far rarer values than with the next most alike row."""
    n = len(codes)
    candidates = np.sort(np.concatenate([neighbors.index, neighbors.partners], 1), 1)
    is_invalid = candidates < 0
    is_invalid[:, 1:] |= candidates[:, 1:] == candidates[:, :-1]
    agreement = np.zeros(candidates.shape)
    differ = np.zeros(candidates.shape, int)
    for code in codes.T:
        n_sharing = np.maximum(np.bincount(code)[code] - 2, 0.5)  # beside this row and its copy
        is_equal = code[candidates] == code[:, None]
        agreement += is_equal * np.log(n / n_sharing)[:, None]
        differ += ~is_equal
    agreement[is_invalid] = -1.0
    order = np.argsort(-agreement, axis=1, kind="stable")
    if candidates.shape[1] < 3:
        return NO_LINKS
    values = (candidates, agreement, differ)
    candidates, depth, differ = (np.take_along_axis(array, order, 1) for array in values)
    # The copies of one row, each edited elsewhere, differ from each other in two columns.
    is_alike = np.logical_and.accumulate(differ[:, :-1] <= 2, 1) & (differ[:, :1] == 1)
    # Groups of three have their step where pairs have none, and so on.
    steps = -np.diff(depth)[:, 1:JUDGED].mean(0)
    rate = 1 / max(1.0, np.median(steps * np.arange(2, len(steps) + 2)))
    chance = 2.0 ** np.arange(is_alike.shape[1]) * np.exp(rate * np.diff(depth))
    chance = np.where(is_alike & (depth[:, 1:] >= 0), chance, 1.0)
    return _link_accepted_rows(chance, candidates, ONE_COLUMN)


def _fit_step_rate(depth: Float[np.ndarray, "u k"]) -> float:
    """Return the rate of the exponential steps between neighbours, without outlying steps."""
    step = (np.arange(2, depth.shape[1]) * -np.diff(depth)[:, 1:]).ravel()
    while (inside := step <= OUTLYING * step.mean()).sum() < len(step) and step.mean() > 0:
        step = step[inside]
    return float(1 / max(step.mean(), 1e-9))  # 0: all distances are equal


def _link_accepted_rows(
    chance: Float[np.ndarray, "u j"], index: Int[np.ndarray, "u k"], share: float
) -> Links:
    """Link accepted rows with the accepted of their nearest rows, as many as chance allows."""
    smallest = chance.min(1)
    k = chance.shape[1]
    is_accepted = _accept_rows(smallest, share)
    threshold = smallest[is_accepted].max(initial=-1.0)
    # Of three and more each member lies far from all others; by accident one of them often does.
    size = (k - np.argmax(chance[:, ::-1] <= threshold, 1))[:, None]
    is_linked = (size == 1) | is_accepted[index[:, :k]]
    is_linked &= (np.arange(k) < size) & is_accepted[:, None]
    return np.stack([np.nonzero(is_linked)[0], index[:, :k][is_linked]], 1)


def _accept_rows(chance: Float[np.ndarray, " u"], share: float) -> Bool[np.ndarray, " u"]:
    """Return which rows Benjamini and Hochberg accept: at most a `share` of them by accident."""
    ordered = np.sort(chance)
    fits = np.flatnonzero(ordered <= share * np.arange(1, len(chance) + 1) / len(chance))
    return chance <= (ordered[fits[-1]] if len(fits) else -1.0)
