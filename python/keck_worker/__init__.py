"""The Python of Keck: what imports modules and kernels and calls them. It decides nothing (docs/architecture.md, part 2)."""
