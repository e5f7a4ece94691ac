"""Parts of `label_issues`: the fit that judges, which noise explains it, outliers, many labels."""
