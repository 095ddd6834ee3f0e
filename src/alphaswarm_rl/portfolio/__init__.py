"""Stages between a policy's weights and target weights: one file per stage."""
