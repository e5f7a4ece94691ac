"""`datassay index`: the training side of influence, computed once and stored."""
