"""A policy that answers: built from a checkpoint, asked for actions, changed for a better one."""
