"""Step 0: reference networks, by name or from the user's module."""

from typing import TYPE_CHECKING

from datassay.public_module import make_public

if TYPE_CHECKING:
    from datassay.models.build import build_model as build_model
    from datassay.models.build import n_outputs as n_outputs
    from datassay.models.equivariant import PermutationEquivariant as PermutationEquivariant
    from datassay.models.networks import Affine as Affine
    from datassay.models.networks import lenet5 as lenet5
    from datassay.models.networks import linear as linear
    from datassay.models.networks import mlp as mlp
    from datassay.models.networks import seeded as seeded
    from datassay.models.tokens import FIELDS as FIELDS
    from datassay.models.tokens import TokenLogits as TokenLogits
    from datassay.models.tokens import token_array as token_array

make_public(__name__)
