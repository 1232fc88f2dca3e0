"""The collapsed reading of a model, in NumPy and Numba: p(G, S | D) with all parameters integrated out."""
