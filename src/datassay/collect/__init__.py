"""Step 1: turn a model and samples into arrays."""

from typing import TYPE_CHECKING

from datassay.public_module import make_public

if TYPE_CHECKING:
    from datassay.collect.backbone import Backbone as Backbone
    from datassay.collect.collection import collect as collect
    from datassay.collect.curvature.derivatives import derivatives as derivatives
    from datassay.collect.curvature.derivatives import point_function as point_function
    from datassay.collect.curvature.hessian import LossAt as LossAt
    from datassay.collect.curvature.hessian import hessian as hessian
    from datassay.collect.curvature.hessian import hessian_products as hessian_products
    from datassay.collect.curvature.hessian import inputs as inputs
    from datassay.collect.curvature.hessian import loss_at as loss_at
    from datassay.collect.curvature.output_geometry import OutputGeometry as OutputGeometry
    from datassay.collect.curvature.output_geometry import output_geometry as output_geometry
    from datassay.collect.engine.processes import engine_named as engine_named
    from datassay.collect.form import Form as Form
    from datassay.collect.jacobian.per_sample import frozen_copy as frozen_copy
    from datassay.collect.jacobian.per_sample import inspect_layers as inspect_layers
    from datassay.collect.jacobian.projection import projector as projector
    from datassay.collect.linearization import Linearization as Linearization
    from datassay.store.results import ResultStore as ResultStore

make_public(__name__)
