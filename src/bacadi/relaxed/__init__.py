"""The differentiable reading of a model, in JAX, equation by equation."""
