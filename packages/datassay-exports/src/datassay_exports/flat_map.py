"""Samples as points: their inputs with fewer numbers, and a map in two."""

import numpy as np
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from sklearn.preprocessing import StandardScaler

WIDTH = 50  # numbers per sample that similarity is judged by
MOST_TSNE = 3000  # samples; of more it takes minutes
PERPLEXITY = 30.0


def embedding(x: np.ndarray, *, are_columns: bool) -> np.ndarray:
    """Return the principal components of the inputs.

    Args:
        x: [n, ...], p numbers per sample.
        are_columns: whether they are a table's columns, of units of their own: standardised first.

    Returns:
        [n, min(50, p, n)] float32.

    Cost: that of scikit-learn's PCA, n p min(n, p) at most.
    """
    flat = np.asarray(x, np.float64).reshape(len(x), -1)
    if are_columns:
        flat = StandardScaler().fit_transform(flat)
    return PCA(min(WIDTH, *flat.shape), random_state=0).fit_transform(flat).astype(np.float32)


def flat_map(embedded: np.ndarray) -> tuple[np.ndarray, str]:
    """Return two coordinates per sample.

    Args:
        embedded: [n, p], from `embedding`.

    Returns:
        [n, 2], and how they were made: t-SNE up to 3,000 samples, the first two components beyond.
    """
    n, width = embedded.shape
    if width < 2:
        return np.pad(embedded, ((0, 0), (0, 2 - width))), "the input itself"
    if not 4 <= n <= MOST_TSNE:
        return embedded[:, :2], "first two principal components of the inputs"
    perplexity = min(PERPLEXITY, (n - 1) / 3)
    coordinates = TSNE(init="pca", perplexity=perplexity, random_state=0).fit_transform(embedded)
    return (
        coordinates,
        f"t-SNE of the inputs' first {width} principal components, perplexity {perplexity:g}",
    )
