"""Experiment tracking: what a run says of itself is written to a journal, and delivered from there to a tracker."""
