"""Polynomial regression: a surrogate whose weights can be read (S3, chapter 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datassay.public_module import make_public

if TYPE_CHECKING:
    from datassay.polynomial.activation import ActivationPolynomial as ActivationPolynomial
    from datassay.polynomial.activation import l2_activation as l2_activation
    from datassay.polynomial.activation import minimax_activation as minimax_activation
    from datassay.polynomial.contributions import Contributions as Contributions
    from datassay.polynomial.contributions import contributions as contributions
    from datassay.polynomial.encodings import CosineEncoding as CosineEncoding
    from datassay.polynomial.encodings import cosine_encoding as cosine_encoding
    from datassay.polynomial.encodings import largest as largest
    from datassay.polynomial.fit import fit_polynomial as fit_polynomial
    from datassay.polynomial.maps import CoefMaps as CoefMaps
    from datassay.polynomial.maps import coef_maps as coef_maps
    from datassay.polynomial.model import Polynomial as Polynomial
    from datassay.polynomial.monomials import all_monomials as all_monomials
    from datassay.polynomial.monomials import local_monomials as local_monomials
    from datassay.polynomial.normal_equations import normal_equations as normal_equations
    from datassay.polynomial.surrogate import Surrogate as Surrogate
    from datassay.polynomial.surrogate import load_surrogate as load_surrogate
    from datassay.polynomial.surrogate import save_surrogate as save_surrogate
    from datassay.polynomial.tensor_weights import WeightMatch as WeightMatch
    from datassay.polynomial.tensor_weights import posterior_activation as posterior_activation
    from datassay.polynomial.tensor_weights import tensor_weights as tensor_weights
    from datassay.polynomial.tensor_weights import weight_match as weight_match

make_public(__name__)
