"""Environments: batched, with SAME_STEP autoreset, and repeatable whatever their number."""
