"""Exports of datassay that only some people need; each module is one tool's."""
