"""Functions with shared hidden units: what draws of Gaussian-process mechanisms are stored as and read by.

Node j with parents P has f_j(x) = b_j + Σ_r w_jr g(c_r + Σ_{i in P} v_ri x_i) + Σ_{i in P} l_ij x_i. The units (v, c)
are the same in all draws and stored once; w, b and l are drawn. Inputs and outputs are in the units of the priors:
x_i stands for (x_i - unit_shift_i) / unit_scale_i of the constants of a posterior, and f_j for the same of x_j.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8, Shaped
from scipy.special import expit


class Units(NamedTuple):
    """Hidden units shared by all nodes: f_j(x) = Σ_r w_jr scale_r g(bias_r + Σ_{i parent of j} weight_ri x_i) + rest.

    g is the logistic function or the cosine; `rest` is w_jR plus, if the kernel has a linear part, Σ_i w_j,R+1+i x_i.
    `own_input[r]` names the single input of unit r, which is silent where that is no parent, or is -1.
    """

    weight: Float[np.ndarray, "R d"]
    bias: Float[np.ndarray, " R"]
    scale: Float[np.ndarray, " R"]
    own_input: Int[np.ndarray, " R"]
    logistic: bool | np.bool
    linear: bool | np.bool

    @classmethod
    def none(cls, n_variables: int) -> "Units":
        """No units: functions of a constant and of linear parts alone."""
        empty = np.empty(0)
        return cls(np.empty((0, n_variables)), empty, empty, np.empty(0, int), False, False)

    def features(self, x: Float[np.ndarray, "n d"], parents: Bool[np.ndarray, " d"]) -> Float[np.ndarray, "n C"]:
        """All features of the rows for one set of parents: units, the constant 1, and the parents if linear."""
        inputs = self.bias + x[:, parents] @ self.weight[:, parents].T
        units = self.scale * (expit(inputs) if self.logistic else np.cos(inputs))
        columns = [units, np.ones((len(x), 1))] + ([x * parents] if self.linear else [])
        return np.concatenate(columns, axis=1)


@dataclass(frozen=True)
class Functions:
    """Drawn functions: `parameters` hold `output_weight` [n, d, R], `output_bias` [n, d] and, where the kernel has a
    linear part, `linear_weight` [n, d, d]; `units` those of each kernel and `kernel[j]` the one of variable j."""

    units: tuple[Units, ...]
    kernel: Int[np.ndarray, " d"]
    parameters: Mapping[str, Shaped[np.ndarray, "n ..."]]

    @classmethod
    def of(
        cls, constants: Mapping[str, np.ndarray], parameters: Mapping[str, Shaped[np.ndarray, "n ..."]]
    ) -> "Functions":
        """From the arrays that a posterior stores, `hidden_weight`, `hidden_bias`, `hidden_logistic` and
        `hidden_kernel` among its constants."""
        weight, bias = constants["hidden_weight"].astype(float), constants["hidden_bias"].astype(float)
        logistic, linear = bool(constants["hidden_logistic"]), "linear_weight" in parameters
        scale, none = np.ones(bias.shape[1]), np.full(bias.shape[1], -1)
        units = tuple(Units(v, c, scale, none, logistic, linear) for v, c in zip(weight, bias, strict=True))
        return cls(units, constants["hidden_kernel"], parameters)

    def values(
        self, graphs: Int8[np.ndarray, "n d d"], x: Float[np.ndarray, "m d"], node: int
    ) -> Float[np.ndarray, "n m"]:
        """f_j(x) of every draw and row; only the columns of the parents of j in the graph of the draw matter."""
        found = np.empty((len(graphs), len(x)))
        units, weight = self.units[self.kernel[node]], self._weights(node)
        different, number = np.unique(graphs[:, :, node], axis=0, return_inverse=True)
        for i, parents in enumerate(different):
            at = np.flatnonzero(number == i)
            found[at] = weight[at] @ units.features(x, parents == 1).T
        return found

    def _weights(self, node: int) -> Float[np.ndarray, "n C"]:
        parts = [self.parameters["output_weight"][:, node], self.parameters["output_bias"][:, node, None]]
        if "linear_weight" in self.parameters:
            parts.append(self.parameters["linear_weight"][:, :, node])
        return np.concatenate(parts, axis=1, dtype=float)
