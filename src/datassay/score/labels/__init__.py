"""Parts of `label_issues`: the ridge fit, label noise that explains its outputs, outliers."""
