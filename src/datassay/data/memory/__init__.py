"""Samples that are in memory already: arrays, data frames and Datasets."""
