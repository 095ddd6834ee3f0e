"""The components under test, which an installed distribution would find by its entry points."""
