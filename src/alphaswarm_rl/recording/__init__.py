"""Every step on its way to the tables: watched, numbered, turned into rows, written."""
