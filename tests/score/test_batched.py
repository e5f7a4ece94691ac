"""Many systems at once: small ones in a batch, large ones one by one, the same answers."""

import numpy as np
import pytest
import torch

from datassay.score.linear.removal import ONE_BY_ONE, inverted, solved


@pytest.mark.parametrize("rows", [3, ONE_BY_ONE - 1, ONE_BY_ONE, 180])
@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
def test_each_system_is_its_own(rows, batch):
    torch.manual_seed(0)
    left = torch.randn(*batch, rows, rows).double() + 3 * rows**0.5 * torch.eye(rows)
    right = torch.randn(*batch, rows, 2).double()
    np.testing.assert_allclose(
        solved(left, right), np.linalg.solve(left.numpy(), right.numpy()), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        inverted(left) @ left, torch.eye(rows).expand(left.shape), rtol=0, atol=1e-10
    )
