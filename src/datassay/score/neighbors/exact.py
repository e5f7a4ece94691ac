"""The nearest of some rows among all rows, exact or approximate; all rows differ."""

import math

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.errors import SettingError, install
from datassay.results import result

PROBES = 8  # cells of an inverted file that are searched
RECALL_QUERIES = 1000  # rows whose exact neighbours measure the recall
LEAST_RECALL = 0.95
POINTS_PER_CELL = 39  # fewest, as faiss asks for
LINKS = 32  # of each row of a graph
BUILD_WIDTH = 60  # candidates that are kept while a graph is built
# Candidates that are kept while it is searched: the first width that reaches the recall. In 64
# independent columns a width of 100 found .95 of 30 000.
WIDTHS = (64, 128, 256, 512)


def nearest_approximate(
    x: Float[Tensor, "n d"], k: int, probes: int | None = None, *, has_graph: bool = True
) -> "tuple[Nearest, float] | None":
    """Return the k nearest by an inverted file or a graph, and the recall reached.

    Args:
        x: the rows.
        k: neighbours, the row itself among them.
        probes: cells of the inverted file to search, whatever it finds: the recall is then nan.
            None: measured, by the exact neighbours of some rows.
        has_graph: whether a graph is tried.

    Returns:
        Candidates ranked by differences in float64, and the share of the exact ones found; None
        where the inverted file finds too few and no graph is tried.

    Source: Jégou, Douze and Schmid (2011), the inverted file without product quantisation, about
    2 √n cells; Malkov and Yashunin (2018), hierarchical navigable small worlds.
    """
    rows = (x - x.mean(0)).float()
    rows = rows.div_(rows.abs().max()).numpy()
    index = _build_inverted_file(rows, probes or PROBES)
    recall = math.nan
    if probes is None and k > 1:
        sampled = np.random.default_rng(0).choice(
            len(x), min(len(x), RECALL_QUERIES), replace=False
        )
        queries = torch.from_numpy(sampled)
        exact = nearest_exact(x, queries, k)
        recall = _recall(_search(index, rows, x, queries, k), exact)
        if recall < LEAST_RECALL and not has_graph:
            return None
        if recall < LEAST_RECALL:
            index = _build_graph(rows)
            for width in WIDTHS:
                index.hnsw.efSearch = max(width, k + 2)
                recall = _recall(_search(index, rows, x, queries, k), exact)
                if recall >= LEAST_RECALL:
                    break
    return _search(index, rows, x, torch.arange(len(x)), k), recall


def _build_inverted_file(rows: np.ndarray, probes: int):
    """Return faiss's inverted file of the rows; `probes` cells are searched."""
    n, d = rows.shape
    faiss = _import_faiss()
    cells = max(1, min(int(2 * math.sqrt(n)), n // POINTS_PER_CELL))
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(d), d, cells)
    index.cp.niter = 5
    index.cp.seed = 0
    index.cp.max_points_per_centroid = 64
    index.train(rows)
    index.add(rows)
    index.nprobe = min(probes, cells)
    return index


def _build_graph(rows: np.ndarray):
    """Return faiss's hierarchical navigable small-world graph of the rows."""
    faiss = _import_faiss()
    index = faiss.IndexHNSWFlat(rows.shape[1], LINKS)
    index.hnsw.efConstruction = BUILD_WIDTH
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)  # several would link rows in another order each time
    index.add(rows)
    faiss.omp_set_num_threads(threads)
    return index


def _search(
    index, rows: np.ndarray, x: Float[Tensor, "n d"], queries: Int[Tensor, " q"], k: int
) -> "Nearest":
    """Return the k nearest of an index's candidates, ranked by differences in float64."""
    nearest = torch.from_numpy(index.search(rows[queries.numpy()], min(len(x), k + 2))[1])
    return rank_candidates(x, queries, _complete_lists(nearest, queries, len(x)), k)


def _recall(nearest: "Nearest", exact: "Nearest") -> float:
    """Return the share of the exact nearest, without the row itself, that are as near as these."""
    hits = (nearest.squared <= exact.squared[:, -1:]).sum(1) - 1
    return float(hits.sum()) / (len(hits) * (exact.squared.shape[1] - 1))


def _complete_lists(nearest: Tensor, queries: Int[Tensor, " q"], n: int) -> Tensor:
    """Return neighbour lists that include the query itself and are filled to full length."""
    query_rows = queries[:, None]
    with_query = torch.cat([query_rows, nearest[:, :-1]], 1)
    nearest = torch.where((nearest == query_rows).any(1, keepdim=True), nearest, with_query)
    for i in (nearest < 0).any(1).nonzero()[:, 0].tolist():
        present = nearest[i][nearest[i] >= 0]
        fillers = torch.arange(min(n, nearest.shape[1] + len(present)))
        fillers = fillers[~torch.isin(fillers, present)]
        nearest[i, len(present) :] = fillers[: nearest.shape[1] - len(present)]
    return nearest


def _import_faiss():
    """Return the faiss module; raise SettingError if it is not installed."""
    try:
        import faiss
    except ImportError:
        raise SettingError(
            "search='approximate' needs faiss, which is not installed; run "
            f"{install('neighbors')}, or set search='exact'."
        ) from None
    return faiss


# A k-d tree beats products up to this many columns, and any search is fast up to this many rows.
TREE_COLUMNS = 8
TREE_ROWS = 100
SPARE = 6  # candidates beyond k: rounding may have swapped some, most often none
BLOCK_VALUES = 2**25  # of one block of products
RANKED_VALUES = 2**20  # of differences, which a cache holds
GROUP = 32  # fewest rows that share one minimum
MINIMA_VALUES = 2**27  # of all rows and groups, held at once
TILE = 2048  # rows whose products with as many others fit a core's cache
SLACK = 1e-12  # relative allowance for rounding in float64


@result
class Nearest:
    """The k nearest of each query among rows that are all different.

    Attributes:
        index: [q, k], nearest first, ties by index.
        squared: [q, k], squared distances by differences in float64.
        redone: how many queries float32 could not settle.
    """

    index: Int[Tensor, "q k"]
    squared: Float[Tensor, "q k"]
    redone: int


@result
class NeighborCandidates:
    """Rows that may be the nearest, and a lower bound for any other row.

    Attributes:
        index: [q, c].
        bound: [q], no row outside the list has a smaller squared distance.
    """

    index: Int[Tensor, "q c"]
    bound: Float[Tensor, " q"]


def nearest_exact(x: Float[Tensor, "n d"], queries: Int[Tensor, " q"], k: int) -> Nearest:
    """Return the k nearest rows of each query row, itself included."""
    n, d = x.shape
    if n <= TREE_ROWS or d <= TREE_COLUMNS:
        nearest, open_idx = _rank_and_verify(x, queries, k, _search_tree(x, queries, k))
        n_redone = len(open_idx)
    else:
        nearest, open_idx = _search_by_products(x, queries, k, torch.float32)
        n_redone = len(open_idx)
        if n_redone:
            in_float64, still_open = _search_by_products(x, queries[open_idx], k, torch.float64)
            _replace(nearest, open_idx, in_float64)
            open_idx = open_idx[still_open]
    if len(open_idx):
        _replace(nearest, open_idx, _search_one_by_one(x, queries[open_idx], k))
    return Nearest(nearest.index, nearest.squared, n_redone)


def rank_candidates(
    x: Float[Tensor, "n d"], queries: Int[Tensor, " q"], candidates: Int[Tensor, "q c"], k: int
) -> Nearest:
    """Return each query's k nearest candidates by float64 distance, ties by index."""
    index = torch.empty(len(queries), k, dtype=torch.int64)
    squared = torch.empty(len(queries), k, dtype=torch.float64)
    step = max(1, RANKED_VALUES // (candidates.shape[1] * x.shape[1]))
    for start in range(0, len(queries), step):
        batch = slice(start, start + step)
        ordered = candidates[batch].sort(1).values
        rows = x.index_select(0, ordered.flatten()).unflatten(0, ordered.shape)
        distance = rows.sub_(x[queries[batch], None]).square_().sum(2)
        nearest = distance.sort(dim=1, stable=True)
        squared[batch] = nearest.values[:, :k]
        index[batch] = ordered.gather(1, nearest.indices[:, :k])
    return Nearest(index, squared, 0)


def _replace(nearest: Nearest, rows: Int[Tensor, " r"], replacement: Nearest) -> None:
    """Overwrite some rows of the nearest, in place."""
    nearest.index[rows] = replacement.index
    nearest.squared[rows] = replacement.squared


def _rank_and_verify(
    x: Tensor, queries: Tensor, k: int, candidates: NeighborCandidates
) -> tuple[Nearest, Int[Tensor, " open"]]:
    """Return the nearest candidates, and queries for which other rows may be nearer."""
    nearest = rank_candidates(x, queries, candidates.index, k)
    largest = nearest.squared[:, -1] * (1 + SLACK)
    return nearest, (~(largest < candidates.bound)).nonzero()[:, 0]


def _search_tree(x: Tensor, queries: Tensor, k: int) -> NeighborCandidates:
    """Return k + SPARE nearest candidates by a k-d tree."""
    n = len(x)
    c = min(n, k + SPARE)
    n_jobs = -1 if n > TREE_ROWS else None
    from sklearn.neighbors import NearestNeighbors  # slow to import

    tree = NearestNeighbors(n_neighbors=c, algorithm="kd_tree", n_jobs=n_jobs).fit(x.numpy())
    distance, index = tree.kneighbors(x[queries].numpy())
    bound = np.full(len(queries), np.inf)
    if c < n:
        bound = distance[:, -1] ** 2 * (1 - SLACK)
    return NeighborCandidates(torch.from_numpy(index), torch.from_numpy(bound))


def _search_by_products(
    x: Tensor, queries: Tensor, k: int, dtype: torch.dtype
) -> tuple[Nearest, Int[Tensor, " open"]]:
    """Return neighbours found by matrix products, and positions of unproven queries."""
    products = _Products(x, dtype)
    c = min(len(x), k + SPARE)
    if products.n_groups > c and torch.equal(queries, torch.arange(len(x))):
        parts = products.all_candidates(c)
    else:
        size = max(16, min(512, BLOCK_VALUES // len(x)))
        parts = [products.candidates(batch, c) for batch in queries.split(size)]
    index = torch.cat([batch.index for batch in parts])
    bound = torch.cat([batch.bound for batch in parts])
    return _rank_and_verify(x, queries, k, NeighborCandidates(index, bound))


class _Products:
    """‖x_i‖² + ‖x_j‖² − 2 x_i·x_j as one product, centred and scaled so that nothing overflows.

    A sum of d + 2 products errs, in any order, by at most (d + 2) u Σ|terms| / (1 - (d + 2) u)
    (Higham, 2002, §3.1); rounding the rows and norms adds 4 u. γ is four times that.
    """

    def __init__(self, x: Tensor, dtype: torch.dtype):
        self.n, d = x.shape
        centred = x - x.median(0).values  # not the mean, which an outlier moves
        self.scale = float(centred.abs().max())
        centred /= self.scale
        squares = centred.square().sum(1)
        self.norm = squares.sqrt()
        self.gamma = 2 * (d + 6) * torch.finfo(dtype).eps
        self.tiny = 8 * (d + 2) * torch.finfo(dtype).tiny
        # Rows per group: large enough that memory holds the minima of all rows and groups.
        self.group = max(GROUP, -(-self.n * self.n // MINIMA_VALUES))
        # Padded to whole groups with rows at infinite distance.
        self.rows = torch.zeros(self.n + -self.n % self.group, d + 2, dtype=dtype)
        self.rows[: self.n, :d] = centred
        self.rows[: self.n, d] = squares
        self.rows[self.n :, d] = torch.inf
        self.rows[:, d + 1] = 1
        self.left = torch.cat([-2 * self.rows[:, :d], self.rows[:, [d + 1, d]]], 1)
        self.n_groups = len(self.rows) // self.group
        self.buffer = self.rows.new_empty(0)

    def candidates(self, queries: Tensor, c: int) -> NeighborCandidates:
        """Return c candidates for some rows, from their products with all rows."""
        # Tall: a third faster than the transposed product, where BLAS repacks all rows.
        products = self._multiply(self.rows, self.left[queries])
        groups = products.view(self.n_groups, self.group, -1)
        if self.n_groups <= c:
            top = products.T.contiguous().topk(c, 1, largest=False, sorted=False)
            return self._attach_bound(queries, top.indices, top.values.amax(1))
        top_groups = groups.amin(1).T.contiguous().topk(c, 1, largest=False, sorted=False)
        products_near = groups.permute(2, 0, 1).gather(
            1, top_groups.indices[..., None].expand(-1, -1, self.group)
        )
        return self._search_groups(queries, top_groups, products_near.flatten(1))

    def all_candidates(self, c: int) -> list[NeighborCandidates]:
        """Return c candidates for every row, in batches; a product serves both of its rows."""
        minima = self._group_minima()  # [rows, n_groups]
        candidates = []
        size = max(16, BLOCK_VALUES // (c * self.group))
        for rows in torch.arange(self.n).split(size):
            row_minima = minima[int(rows[0]) : int(rows[-1]) + 1]
            groups = row_minima.topk(c, 1, largest=False, sorted=False)
            candidates.append(
                self._search_groups(rows, groups, self._multiply_groups(rows, groups.indices))
            )
        return candidates

    def _multiply_groups(
        self, queries: Tensor, groups: Int[Tensor, "q c"]
    ) -> Float[Tensor, "q values"]:
        """Return products of some rows with the rows of the groups chosen for each."""
        q_rows = self.left[queries]
        products = q_rows.new_empty(groups.numel(), self.group)
        # Group by group, for all queries that chose it: else each copies its 32 c rows.
        counts = groups.flatten().bincount(minlength=self.n_groups).tolist()
        picks = groups.flatten().argsort().split(counts)
        for rows, pick in zip(self.rows.split(self.group), picks, strict=True):
            products[pick] = q_rows[pick // groups.shape[1]] @ rows.T
        return products.view(len(q_rows), -1)

    def _group_minima(self) -> Tensor:
        """Return the smallest product of each row with each group, [rows, n_groups]."""
        # Products of two rows are the same either way: a tile serves its rows and its columns.
        side = self.group * max(1, TILE // self.group)
        minima = self.rows.new_empty(len(self.rows), self.n_groups)
        tiles = torch.arange(len(self.rows)).split(side)
        for i, tile in enumerate(tiles):
            rows = slice(int(tile[0]), int(tile[-1]) + 1)
            for tile_j in tiles[i:]:
                columns = slice(int(tile_j[0]), int(tile_j[-1]) + 1)
                products = self._multiply(self.left[rows], self.rows[columns])
                by_column = minima[rows, columns.start // self.group : columns.stop // self.group]
                torch.amin(products.view(len(tile), -1, self.group), 2, out=by_column)
                by_row = minima[columns, rows.start // self.group : rows.stop // self.group]
                by_row.copy_(products.view(-1, self.group, len(tile_j)).amin(1).T)
        return minima

    def _multiply(self, a: Tensor, b: Tensor) -> Tensor:
        """Return a bᵀ, in a buffer that the next call overwrites."""
        size = len(a) * len(b)
        if len(self.buffer) < size:
            # New pages for every block would cost as much as the products.
            self.buffer = self.rows.new_empty(size)
        return torch.mm(a, b.T, out=self.buffer[:size].view(len(a), len(b)))

    def _search_groups(
        self, queries: Tensor, groups: torch.return_types.topk, values: Float[Tensor, "q values"]
    ) -> NeighborCandidates:
        """Return c candidates among the rows of c groups, by their products with the queries."""
        c = groups.indices.shape[1]
        top = values.topk(c, 1, largest=False, sorted=False)
        group = groups.indices.gather(1, top.indices // self.group)
        index = self.group * group + top.indices % self.group
        return self._attach_bound(queries, index, groups.values.amax(1).minimum(top.values.amax(1)))

    def _attach_bound(self, queries: Tensor, index: Tensor, largest: Tensor) -> NeighborCandidates:
        """Return the candidates with a lower bound of all other rows' squared distances.

        largest: [q], scaled and rounded squared distance that no other row falls below.
        """
        if index.shape[1] == self.n:
            return NeighborCandidates(index, torch.full((len(queries),), torch.inf).double())
        # True for any radius r: a row of norm above ‖x_i‖ + r is farther than r, and any other errs
        # by at most γ (2 ‖x_i‖ + r)². So an outlier weakens no other row's bound.
        largest = largest.double()
        radius = largest.clamp_min(0).sqrt() * (1 + 2 * self.gamma)
        error = self.gamma * (2 * self.norm[queries] + radius).square() + self.tiny
        bound = (largest - error).minimum(radius.square()) * self.scale**2 * (1 - SLACK)
        return NeighborCandidates(index, bound)


def _search_one_by_one(x: Tensor, queries: Tensor, k: int) -> Nearest:
    """Return the nearest rows by float64 distances, one query at a time."""
    rows = max(1, BLOCK_VALUES // x.shape[1])
    index = torch.empty(len(queries), k, dtype=torch.int64)
    squared = torch.empty(len(queries), k, dtype=torch.float64)
    for position, query in enumerate(x[queries]):
        distance = torch.cat([(chunk - query).square().sum(1) for chunk in x.split(rows)])
        ordered = distance.sort(stable=True)
        index[position] = ordered.indices[:k]
        squared[position] = ordered.values[:k]
    return Nearest(index, squared, 0)
