"""The course (S2) as experiments that run, plot and check themselves.

`catalog.py` is the table of contents; every other experiment's file holds one statement: a pure
function with a frozen result, its plots, and the `EXPERIMENT` that says what they show.
"""
