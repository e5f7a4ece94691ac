"""Code of users: what it raises is one line, but what stops a command still stops it."""

import pytest

from datassay.errors import ModelError
from datassay.models.user_code import user_code


def stopped(chained):
    """Raise what compiled code makes of an interruption, from it or while it is handled."""
    try:
        raise KeyboardInterrupt(2)
    except KeyboardInterrupt as error:
        made = SystemError("returned a result with an exception set")
        if chained:
            raise made from error
        raise made from None


@pytest.mark.parametrize("chained", [True, False])
def test_an_interruption_inside_stops(chained):
    with pytest.raises(KeyboardInterrupt, match="2"), user_code(str):
        stopped(chained)
    with pytest.raises(ModelError, match="ValueError: no"), user_code(str):
        raise ValueError("no")
