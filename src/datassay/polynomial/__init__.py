"""Polynomial regression: a surrogate whose weights can be read (S3, chapter 3)."""

from typing import TYPE_CHECKING

from datassay.public_module import make_public

if TYPE_CHECKING:
    from datassay.methods.polynomial.activation import ActivationPolynomial as ActivationPolynomial
    from datassay.methods.polynomial.activation import l2_activation as l2_activation
    from datassay.methods.polynomial.activation import minimax_activation as minimax_activation
    from datassay.methods.polynomial.contributions import Contributions as Contributions
    from datassay.methods.polynomial.contributions import contributions as contributions
    from datassay.methods.polynomial.encodings import CosineEncoding as CosineEncoding
    from datassay.methods.polynomial.encodings import cosine_encoding as cosine_encoding
    from datassay.methods.polynomial.encodings import largest as largest
    from datassay.methods.polynomial.fit import fit_polynomial as fit_polynomial
    from datassay.methods.polynomial.maps import CoefMaps as CoefMaps
    from datassay.methods.polynomial.maps import coef_maps as coef_maps
    from datassay.methods.polynomial.model import Polynomial as Polynomial
    from datassay.methods.polynomial.monomials import all_monomials as all_monomials
    from datassay.methods.polynomial.monomials import local_monomials as local_monomials
    from datassay.methods.polynomial.solvers.normal_equations import (
        normal_equations as normal_equations,
    )
    from datassay.methods.polynomial.surrogate import Surrogate as Surrogate
    from datassay.methods.polynomial.surrogate import load_surrogate as load_surrogate
    from datassay.methods.polynomial.surrogate import save_surrogate as save_surrogate
    from datassay.methods.polynomial.tensor_weights import WeightMatch as WeightMatch
    from datassay.methods.polynomial.tensor_weights import (
        posterior_activation as posterior_activation,
    )
    from datassay.methods.polynomial.tensor_weights import tensor_weights as tensor_weights
    from datassay.methods.polynomial.tensor_weights import weight_match as weight_match

make_public(__name__)
