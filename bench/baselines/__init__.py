"""One adapter per baseline library; tasks ask them alike. None is a dependency of the library.

Beside its own torch they install as `pip install --no-deps --target baselines kronfluence traker
einops einconv opt_einsum peft`, then PYTHONPATH=baselines.
"""
