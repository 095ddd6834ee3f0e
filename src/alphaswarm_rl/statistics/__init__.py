"""How policies are judged: pure statistics over arrays."""
