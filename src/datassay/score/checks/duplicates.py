"""Equal rows and groups of near duplicates, from rows as codes and coordinates."""

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from datassay.errors import install
from datassay.results import result
from datassay.score.checks.codes import RowCodes, rare_rows
from datassay.score.checks.copies import NO_LINKS, Links, connect_rows, link_accepted_rows
from datassay.score.checks.texts import text_links
from datassay.score.neighbors.exact import PROBES, nearest_exact, rank_candidates
from datassay.score.neighbors.search import nearest_neighbors

K = 10  # neighbours whose mean distance says how alone a row is
REACH = 20  # neighbours that are compared; groups of more are searched for otherwise
FEWEST = 12  # different rows that distances can be judged by
EXACT_UP_TO = 20_000  # rows; beyond, neighbours are approximate where faiss is installed
MOST_ROWS_WITHOUT_FAISS = 100_000  # of more, those of a sample are searched
FEW_PROBES = 4  # cells that find copies as eight do; the nearest of all may be in others
# Shares of false groups that are accepted (Benjamini and Hochberg): rows that differ in one column,
# and rows that lie close in all.
ONE_COLUMN, ALL_COLUMNS = 0.05, 0.02
APART = 3.0  # widths that a group of three or more lies from all others; less is a cluster
LARGEST = 0.05  # part of all rows that a group of more than REACH + 1 may be: more is a cluster
# Chance that gives a share q of the rows a partner one column apart gives q²/2 two (Poisson). Pairs
# are no accident where fewer than CROWDED q²/2 have two and independent columns would make fewer
# than INDEPENDENT as many pairs. Where these make half as many, none is told.
CROWDED, INDEPENDENT = 0.5, 0.1
FEWEST_COLUMNS = 3
# Standard deviation of a column's coordinates beyond which rows are also compared in units of
# standard deviations: in robust ones a normal column has .8, since asinh pulls tails in.
UNEVEN = 1.0

# Shares of all rows: where MANY_EQUAL are equal by chance, close groups are by chance too if they
# hold fewer than MANY_CLOSE.
MANY_EQUAL, MANY_CLOSE = 0.05, 0.15
LUMP = 10.0  # members so many times nearer to each other than the group is wide count as one
MOST_JUDGED = 200  # rows that the scale of accidents is fitted to
JUDGED = 8  # steps of agreement that it is fitted to
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
        is_by_chance: [n], equal rows that are nothing unusual: at least half as many differ from
            another in one column only, not as near duplicates; none is of `rare_rows`.
        nearest: [n], position of the nearest other row, an equal one first; −1: not searched for.
        distance: [n], to it, in robust standard deviations (1 for another word); nan likewise.
        loneliness: [n], mean distance to the ten nearest different rows; nan likewise.
        unsearched: what was not looked for, and the remedy; empty where all was.
    """

    group: Int[np.ndarray, " n"]
    near: Int[np.ndarray, " n"]
    pairs: Int[np.ndarray, "m 2"]
    one_column: Bool[np.ndarray, " m"]
    is_by_chance: Bool[np.ndarray, " n"]
    nearest: Int[np.ndarray, " n"]
    distance: Float[np.ndarray, " n"]
    loneliness: Float[np.ndarray, " n"]
    unsearched: str


@result
class _Neighbors:
    """The u different rows: where they lie, their neighbours, and rows one column apart."""

    coordinates: Float[np.ndarray, "u m"]
    numbers: Float[np.ndarray, "u _"]  # coordinates without words
    index: Int[np.ndarray, "u k"]
    distance: Float[np.ndarray, "u k"]
    number_distance: Float[np.ndarray, "u k"]  # to the k rows nearest by numbers
    partners: Int[np.ndarray, "u 2"]  # rows that differ in one column only; −1: none
    n_partners: Int[np.ndarray, " u"]


def duplicates(rows: RowCodes) -> Duplicates:
    """Find equal rows, near duplicates and each row's nearest other row.

    Rows are equal by their hashes, near duplicates by how far a group lies from all other rows.

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
    hashes = _hash_values(rows.codes)
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
    neighbors = _find_neighbors(rows.coordinates[distinct], *search_inputs)
    links = _link_one_column(rows.codes[distinct], neighbors)
    is_linked = np.isin(np.arange(len(searched)), links)
    n_equal = (group >= 0).sum()
    is_natural = bool(2 * ((neighbors.n_partners > 0) & ~is_linked).sum() >= n_equal * share > 0)
    close_links = [_link_close_groups(neighbors), _link_large_groups(neighbors)]
    if (
        rows.coordinates is not rows.standardised
        and (rows.coordinates.std(0)[~rows.words] > UNEVEN).any()
    ):
        standard = _find_neighbors(rows.standardised[distinct], *search_inputs, only_close=True)
        close_links += [_link_close_groups(standard), _link_large_groups(standard)]
    is_rare = rare_rows(rows.codes[first_idx], is_natural & (counts > 1))
    are_many = is_natural and n_equal >= MANY_EQUAL * len(group)
    n_close = len(np.unique(np.concatenate(close_links)))
    if not are_many or n_close >= MANY_CLOSE * len(group) * share:
        links = np.concatenate([links, *close_links])
    if rows.texts:
        texts = {column: words[distinct] for column, words in rows.texts.items()}
        similar = text_links(rows.codes[distinct], texts, neighbors.index[:, :K])
        links = np.concatenate([links, similar])
    near_group, pairs = connect_rows(distinct[links], len(inverse))
    n_apart = (rows.codes[pairs[:, 0]] != rows.codes[pairs[:, 1]]).sum(1)  # columns
    nearest = np.full(len(first_idx), -1)
    distance, loneliness = np.full((2, len(first_idx)), np.nan)
    if neighbors.index.shape[1]:
        nearest[searched] = distinct[neighbors.index[:, 0]]
        distance[searched] = neighbors.distance[:, 0]
        loneliness[searched] = neighbors.distance[:, :K].mean(1)
    row_idx = np.arange(len(inverse))
    last_idx = np.full(len(first_idx), -1)
    last_idx[inverse] = row_idx  # of equal rows the last one
    first_row = first_idx[inverse]
    equal_row = np.where(row_idx == first_row, last_idx[inverse], first_row)
    n_searched = len(searched) if neighbors.index.shape[1] else 0
    return Duplicates(
        group=group,
        near=near_group[first_row],
        pairs=pairs,
        one_column=(n_apart == 1) & bool(rows.names),
        is_by_chance=(group >= 0) & is_natural & ~is_rare[inverse],
        nearest=np.where(group < 0, nearest[inverse], equal_row),
        distance=np.where(group < 0, distance[inverse], 0.0),
        loneliness=loneliness[inverse],
        unsearched=_describe_unsearched(n_searched, len(first_idx)),
    )


def _hash_values(codes: Int[np.ndarray, "n m"]) -> np.ndarray:
    """Return a random 64-bit hash per value, [n, m]; a row's sum is the row's hash."""
    random = np.random.default_rng(0)
    hashes = np.empty(codes.shape, np.uint64)
    for column, code in enumerate(codes.T):
        values = random.integers(2**64, size=int(code.max(initial=0)) + 1, dtype=np.uint64)
        hashes[:, column] = values[code]
    return hashes


def add_near(outcome: Duplicates, links: Links) -> Duplicates:
    """Return the duplicates with further links added as near duplicates."""
    row_idx = np.arange(len(outcome.group))
    group = np.where(outcome.group < 0, -1 - row_idx, outcome.group)
    _, start, inverse = np.unique(group, return_index=True, return_inverse=True)
    heads = start[inverse]  # the first of equal rows stands for all
    links = heads[links[heads[links[:, 0]] != heads[links[:, 1]]]]
    if not len(links):
        return outcome
    label, pairs = connect_rows(np.concatenate([outcome.pairs, links]), len(row_idx))
    return replace(outcome, near=label[heads], pairs=pairs, one_column=np.zeros(len(pairs), bool))


def _choose_searched_rows(n: int) -> Int[np.ndarray, " s"]:
    """Return the rows whose neighbours are searched: all n, or without faiss a sample."""
    if n <= MOST_ROWS_WITHOUT_FAISS or find_spec("faiss") is not None:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, MOST_ROWS_WITHOUT_FAISS, replace=False))


def _describe_unsearched(n_searched: int, n: int) -> str:
    """Return a sentence on rows that were not searched; "" if all n were."""
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


def _find_neighbors(
    coordinates: Float[np.ndarray, "u m"],
    words: Bool[np.ndarray, " m"],
    hashes: np.ndarray,
    row_hash: np.ndarray,
    *,
    only_close: bool = False,
) -> _Neighbors:
    """Return each row's nearest rows, and rows that differ in one column only.

    hashes: of each value; row_hash: [u], the sum over columns.
    """
    n, d = hashes.shape
    partners = np.full((n, 2), -1)
    n_partners = np.zeros(n, int)
    for column in range(d if d >= FEWEST_COLUMNS else 0):
        hash_without = row_hash - hashes[:, column]  # equal if all other columns are
        order = hash_without.argsort(kind="stable")
        is_equal = hash_without[order][1:] == hash_without[order][:-1]
        later = order[1:][is_equal]
        earlier = order[:-1][is_equal]
        for row, partner in ((later, earlier), (earlier, later)):
            partners[row, np.minimum(n_partners[row], 1)] = partner
            n_partners[row] += 1
    if n < FEWEST or not coordinates.shape[1]:
        zeros = np.zeros((n, 0))
        shared = (coordinates, coordinates, zeros.astype(int), zeros, zeros)
        return _Neighbors(*shared, partners, n_partners)
    is_approximate = n > EXACT_UP_TO and find_spec("faiss") is not None
    search = "approximate" if is_approximate else "exact"
    reach = min(REACH + 1, n - 1)
    numbers = coordinates[:, ~words]
    settings = {"search": search}
    only_close &= bool(words.any() and numbers.shape[1])
    probes = FEW_PROBES if only_close else PROBES
    x = numbers if only_close else coordinates
    neighbors = nearest_neighbors(x, reach, probes=probes, **settings)
    index, distance = neighbors.index[:, 1:], neighbors.distance[:, 1:]
    number_distance = distance
    if not numbers.shape[1]:
        number_distance = np.zeros_like(distance)  # words alone have no distance to judge by
    elif only_close:  # of these the nearest are the nearest of all: words only add to a distance
        x = torch.from_numpy(coordinates).double()
        queries = torch.arange(n)
        nearest = rank_candidates(x, queries, torch.from_numpy(index), reach - 1)
        index = nearest.index.int().numpy()
        distance = nearest.squared.sqrt().float().numpy()
        number_distance = number_distance.astype(np.float32)  # of many rows the largest array
    elif words.any():
        by_numbers = nearest_neighbors(numbers, reach, probes=FEW_PROBES, **settings)
        number_distance = by_numbers.distance[:, 1:]
    return _Neighbors(coordinates, numbers, index, distance, number_distance, partners, n_partners)


def _link_one_column(codes: Int[np.ndarray, "u d"], neighbors: _Neighbors) -> Links:
    """Return links of rows that differ in one column only, unless chance explains them."""
    n = len(codes)
    has_partner = neighbors.n_partners > 0
    # Rows that share no value with any, as noisy copies, say nothing of chance.
    shares_value = np.any([np.bincount(code)[code] > 1 for code in codes.T], 0)
    if not shares_value.any():
        return NO_LINKS
    m = shares_value.sum()
    p_equal = np.array([np.square(np.bincount(code) / m).sum() for code in codes[shares_value].T])
    by_chance = m * (p_equal.prod() / p_equal).sum()  # partners per row if columns are independent
    if by_chance > neighbors.n_partners[shares_value].mean() / 2:
        return NO_LINKS
    is_rare = (neighbors.n_partners > 1).mean() <= CROWDED * has_partner.mean() ** 2 / 2
    if is_rare and by_chance <= INDEPENDENT * neighbors.n_partners.mean():
        return np.stack([np.arange(n), neighbors.partners[:, 0]], 1)[has_partner]
    return _link_rare_agreement(codes, neighbors)


def _link_close_groups(neighbors: _Neighbors) -> Links:
    """Return links of rows in small groups, close together and far from all other rows.

    Row u and its j + 1 nearest are one group if the step from log distance j + 1 to the next is
    longer than accidents explain. Their steps are exponential, at a rate fitted to the rows.
    """
    index = neighbors.index
    has_partner = neighbors.n_partners > 0
    n, k = index.shape
    if k < 3:
        return NO_LINKS
    tiny = np.finfo(np.float32).tiny
    log_inside = np.log(np.maximum(neighbors.distance, tiny))
    log_outside = np.log(np.maximum(neighbors.number_distance, tiny))
    step = log_outside[:, 1:] - log_inside[:, :-1]
    is_cluster = step <= np.log(APART)
    is_cluster[:, 0] = step[:, 0] <= 0
    has_partner = has_partner[:, None] | np.logical_or.accumulate(has_partner[index[:, :-1]], 1)
    is_excluded = is_cluster | has_partner
    for j in range(1, k - 1):  # copies among the members come in lumps, each of which counts once
        candidates = np.flatnonzero(~is_excluded[:, j])
        members = np.concatenate([candidates[:, None], index[candidates, : j + 1]], 1)
        in_lump = log_inside[members] < (log_inside[candidates, j] - np.log(LUMP))[:, None, None]
        step[candidates, j] *= (1 / (1 + in_lump.sum(2))).sum(1) - 1
    rate = _fit_step_rate(-log_outside)
    for _ in range(2):
        # Among accidents each size is half as frequent as the one before, pairs the most.
        p_accident = 2.0 ** np.arange(k - 1) * np.exp(-rate * step.clip(0))
        p_accident = np.where(is_excluded, 1.0, p_accident)
        links = link_accepted_rows(p_accident, index, ALL_COLUMNS)
        if not len(links):
            break
        # Fit the rate again, to one row of each group.
        firsts = neighbors.numbers[np.setdiff1d(np.arange(n), connect_rows(links, n)[1][:, 1])]
        if len(firsts) < FEWEST:
            break
        queries = torch.arange(0, len(firsts), -(-len(firsts) // MOST_JUDGED))
        nearest = nearest_exact(torch.from_numpy(firsts).double(), queries, min(k + 1, len(firsts)))
        rate = _fit_step_rate(-np.log(np.maximum(nearest.squared[:, 1:].sqrt().numpy(), tiny)))
    return links


def _link_large_groups(neighbors: _Neighbors) -> Links:
    """Return links of groups of more than REACH rows that lie far from all others.

    Members reach each other along neighbours, and have no neighbour outside.
    """
    n, k = neighbors.index.shape
    if k < REACH:
        return NO_LINKS
    graph = coo_array((np.ones(n * k), (np.arange(n).repeat(k), neighbors.index.ravel())), (n, n))
    label = connected_components(graph, connection="strong")[1]
    links = [NO_LINKS]
    are_left = np.unique(label[(label[neighbors.index] != label[:, None]).any(1)])
    count = np.bincount(label)
    are_large = np.flatnonzero((count >= k) & (count <= LARGEST * n))
    for component in np.setdiff1d(are_large, are_left):
        members = np.flatnonzero(label == component)
        distance = np.linalg.norm(neighbors.numbers - neighbors.numbers[members[0]], axis=1)
        offset = neighbors.coordinates[members] - neighbors.coordinates[members[0]]
        distance[members] = np.inf
        if distance.min() > LUMP * np.linalg.norm(offset, axis=1).max():
            links.append(np.stack([np.full(len(members), members[0]), members], 1))
    return np.concatenate(links)


def _link_rare_agreement(codes: Int[np.ndarray, "u d"], neighbors: _Neighbors) -> Links:
    """Return links of rows one column apart that agree in unusually rare values.

    Shared values are rare by Σ log(n / rows that share the value). Neighbours and partners are
    compared in falling order of it; a fall that is too large for an accident ends a group.
    """
    n = len(codes)
    # Each row's candidates, [u, c]; −1 and repeated ones count as unlike any.
    candidates = np.sort(np.concatenate([neighbors.index, neighbors.partners], 1), 1)
    is_invalid = candidates < 0
    is_invalid[:, 1:] |= candidates[:, 1:] == candidates[:, :-1]
    agreement = np.zeros(candidates.shape)
    n_apart = np.zeros(candidates.shape, int)  # columns
    for code in codes.T:
        n_sharing = np.maximum(np.bincount(code)[code] - 2, 0.5)  # beside this row and its copy
        is_equal = code[candidates] == code[:, None]
        agreement += is_equal * np.log(n / n_sharing)[:, None]
        n_apart += ~is_equal
    agreement[is_invalid] = -1.0
    order = np.argsort(-agreement, axis=1, kind="stable")
    if candidates.shape[1] < 3:
        return NO_LINKS
    values = (candidates, agreement, n_apart)
    candidates, agreement, n_apart = (np.take_along_axis(array, order, 1) for array in values)
    # The copies of one row, each edited elsewhere, differ from each other in two columns.
    is_alike = np.logical_and.accumulate(n_apart[:, :-1] <= 2, 1) & (n_apart[:, :1] == 1)
    # The rate of accidental steps is read off the steps behind the first, where groups have theirs:
    # step j is 1/(j + 1) as long on average.
    steps = -np.diff(agreement)[:, 1:JUDGED].mean(0)
    rate = 1 / max(1.0, np.median(steps * np.arange(2, len(steps) + 2)))
    p_accident = 2.0 ** np.arange(is_alike.shape[1]) * np.exp(rate * np.diff(agreement))
    p_accident = np.where(is_alike & (agreement[:, 1:] >= 0), p_accident, 1.0)
    return link_accepted_rows(p_accident, candidates, ONE_COLUMN)


def _fit_step_rate(depth: Float[np.ndarray, "u k"]) -> float:
    """Return the rate of the exponential steps between successive neighbours, outliers aside.

    depth: falling, such as −log distance; the step from the jth to the next counts j-fold.
    """
    step = (np.arange(2, depth.shape[1]) * -np.diff(depth)[:, 1:]).ravel()
    while (inside := step <= OUTLYING * step.mean()).sum() < len(step) and step.mean() > 0:
        step = step[inside]
    return float(1 / max(step.mean(), 1e-9))  # 0: all distances are equal
