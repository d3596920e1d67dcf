"""Figures of a run: JSON on standard input, SVG on standard output. It draws; every number comes from the JSON."""
