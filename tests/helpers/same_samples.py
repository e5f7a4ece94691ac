"""Two sets of samples that must be the same."""

import numpy as np


def same_samples(one, other, names=True):
    """Inputs, targets, ids, names, and what is shown are equal."""
    for name in ("x", "y", "ids", "source"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    named = ("feature_names",) * names
    for name in ("class_names", "label_type", "kind", "name", "split_off", *named):
        assert getattr(one, name) == getattr(other, name), name
    for name in ("texts", "rows"):
        shown = [getattr(samples, name) for samples in (one, other)]
        assert (shown[0] is None) == (shown[1] is None)
        if shown[0] is not None:
            assert list(map(str, shown[0])) == list(map(str, shown[1]))
