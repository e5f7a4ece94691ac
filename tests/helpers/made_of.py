"""Networks in a line: layers by name, and a function of them and the inputs."""

from torch import nn


class MadeOf(nn.Module):
    """`MadeOf(lambda net, x: net.head(x), head=nn.Linear(5, 3))`."""

    def __init__(self, call, **layers):
        super().__init__()
        self.call = call
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, *given, **named):
        return self.call(self, *given, **named)
