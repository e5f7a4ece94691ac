"""What the machine says of itself."""

from datassay.machine import available_memory


def test_available_memory_is_plausible():
    assert 1e7 < available_memory() < 1e15
