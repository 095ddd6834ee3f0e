"""Places where every step of a run is kept."""
