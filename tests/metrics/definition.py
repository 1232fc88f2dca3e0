"""SID by its definition, written from paths and d-separation alone, apart from the package."""

from functools import cache
from itertools import pairwise, permutations

import numpy as np

from bacadi.graph.enumerate import all_dags


def descendants(dag, node):
    """The node and everything a directed path from it reaches."""
    found, todo = {node}, [node]
    while todo:
        for child in np.flatnonzero(dag[todo.pop()]):
            if child not in found:
                found.add(int(child))
                todo.append(int(child))
    return found


def paths(dag, start, end):
    """All paths without repeated nodes, whatever the directions of their edges."""
    stack = [[start]]
    while stack:
        path = stack.pop()
        if path[-1] == end:
            yield path
            continue
        for node in np.flatnonzero(dag[path[-1]] | dag[:, path[-1]]):
            if node not in path:
                stack.append([*path, int(node)])


def blocked(dag, path, given):
    for a, b, c in zip(path, path[1:], path[2:], strict=False):
        collider = dag[a, b] and dag[c, b]
        if collider and not descendants(dag, b) & given:
            return True
        if not collider and b in given:
            return True
    return False


def adjusts(dag, i, j, given):
    """Whether `given` is a valid adjustment set for the effect of i on j in `dag` (Shpitser et al., 2010): no member
    descends from a node (other than i) on a directed path from i to j, and every other path is blocked."""
    directed = [p for p in paths(dag, i, j) if all(dag[a, b] for a, b in pairwise(p))]
    forbidden = set().union(*(descendants(dag, node) for p in directed for node in p[1:]))
    if forbidden & given:
        return False
    return all(blocked(dag, p, given) for p in paths(dag, i, j) if p not in directed)


def wrong_effects(truth, i, parents):
    """For how many j the parents that a guess gives to i do not yield p(x_j | do(x_i))."""
    wrong = 0
    for j in range(len(truth)):
        if i == j:
            continue
        if j in parents:
            # The guess says that j does not react; wrong if it does.
            wrong += j in descendants(truth, i)
        else:
            wrong += not adjusts(truth, i, j, set(parents))
    return wrong


def brute_force_sid(guess, truth):
    """The definition of Peters and Bühlmann (2015): pairs whose effect the parents in the guess do not give."""
    return sum(wrong_effects(truth, i, frozenset(np.flatnonzero(guess[:, i]).tolist())) for i in range(len(truth)))


def cost_of(truth):
    """`wrong_effects` of one truth, each pair of node and parents computed once."""
    return cache(lambda i, parents: wrong_effects(truth, i, parents))


def dags_up_to_relabelling(d):
    """One DAG of every isomorphism class."""
    orders = [np.array(order) for order in permutations(range(d))]
    return [g for g in all_dags(d) if g.tobytes() == min(g[np.ix_(o, o)].tobytes() for o in orders)]
