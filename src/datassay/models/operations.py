"""Operations of a network, by torch's own rules: its `FlopCounterMode` imports a compiler."""

from collections import Counter

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry


class OperationCounter(TorchDispatchMode):
    """A mode that counts the floating-point operations of the code inside it, by operation."""

    def __init__(self):
        super().__init__()
        self.counts: Counter[str] = Counter()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # skipping it imports it, for a second

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        rule = flop_registry.get(func._overloadpacket)
        if rule is not None:
            self.counts[str(func)] += int(rule(*args, **(kwargs or {}), out_val=out))
        return out
