"""Adjacency arrays: acyclicity, enumeration, equivalence classes. `graph[i, j] = 1` means i -> j."""
