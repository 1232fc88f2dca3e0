"""Gaussian-process evidence: nonlinear mechanisms with their functions integrated out."""
