"""Policies that learn nothing: baselines, and rules to compare with."""
