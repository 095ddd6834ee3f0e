"""`rl models`: the table of its commands."""

from __future__ import annotations

from alphaswarm_rl.cli.lazy import Entry, LazyGroup

_HERE = "alphaswarm_rl.cli"

ENTRIES = {
    "list": Entry(f"{_HERE}.models_looking:list_models", "List models, the best first."),
    "show": Entry(f"{_HERE}.models_looking:show", "Show everything about one model."),
    "best": Entry(f"{_HERE}.models_looking:best", "Show the best model that passed its newest validation."),
    "history": Entry(f"{_HERE}.models_looking:history", "Show a model's evaluations, validations and promotions."),
    "add": Entry(f"{_HERE}.models_add:add", "Register a model that was not trained here, with its metrics."),
    "validate": Entry(f"{_HERE}.models_validate:validate", "Put a model through the gates."),
    "load": Entry(f"{_HERE}.models_load:load", "Load a model and say what it is."),
    "promote": Entry(f"{_HERE}.models_promotion:promote", "Put a model into production, or elsewhere."),
    "rollback": Entry(f"{_HERE}.models_promotion:rollback", "Put the production model before the present one back."),
    "protect": Entry(f"{_HERE}.models_promotion:protect", "Keep a model from being pruned, or give it free again."),
    "prune": Entry(f"{_HERE}.models_prune:prune", "Archive models that are not worth keeping, and delete their files."),
}

models = LazyGroup(entries=ENTRIES, name="models", help="Find, judge, promote and prune trained models.")
