"""Imported once by the process that the others are forked from: what takes time is done then."""

import duckdb  # noqa: F401
import numpy as np
import pyiceberg.catalog.sql  # noqa: F401
import safetensors.numpy  # noqa: F401

import alphaswarm_rl.agents.sb3.learner
import alphaswarm_rl.cli.lake
import alphaswarm_rl.lake.maintenance
import alphaswarm_rl.lake.producers
import alphaswarm_rl.lake.verify
import alphaswarm_rl.runtime.runtime  # noqa: F401
from alphaswarm_rl.core import catalogue
from alphaswarm_rl.lake.hashing64 import row_hashes
from alphaswarm_rl.recording.numbering import ALL, Numbering
from alphaswarm_rl.runtime.fingerprints import code_fingerprint

catalogue.discover()
code_fingerprint()
row_hashes(np.zeros((2, 4), np.float32))
Numbering(np.zeros(2), np.zeros(2), stride=1, sampling=ALL, vector_steps=0).take(np.zeros((2, 3), np.bool_))
