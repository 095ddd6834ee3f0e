"""Audits of a user's own spec."""
