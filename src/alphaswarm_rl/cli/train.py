"""`rl train`."""

from __future__ import annotations

import os
import sys

import click

from alphaswarm_rl.cli.results import give_result, say_spec
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.options import effective_spec
from alphaswarm_rl.spec import load_spec


@verb("train")
@click.argument("spec", required=False)
def train(session: Session, spec: str | None) -> None:
    """Train a spec's agent, judge it, and leave a checkpoint.

    SPEC is a YAML file or the name of a preset; without it the options' defaults are trained. Flags and environment
    variables change the spec before it is hashed; `--seed random` draws a seed for this run and leaves the spec alone.

    Args:
        session: This call.
        spec: The YAML file or the preset.
    """
    settings = session.settings
    effective = effective_spec(None if spec is None else load_spec(spec), session.flags, os.environ)
    say_spec(session, effective)

    from alphaswarm_rl.runtime import RLRuntime

    runtime = RLRuntime(effective.spec, settings, overrides=effective.sources, progress=sys.stderr.isatty())
    give_result(session, runtime.train(seed="random" if effective.draws_seed else None))
