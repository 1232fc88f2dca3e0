"""Causal answers from the draws of a posterior: effects, interventions, what contexts did, the next experiment."""

from bacadi.answers.answer import Answer
from bacadi.answers.doing import do
from bacadi.answers.effects import counter_check, effect, effect_draws, effects
from bacadi.answers.gain import Design, next_experiment
from bacadi.answers.query import Settings, ask
from bacadi.answers.structure import ancestors, changed, context_did, descendants
