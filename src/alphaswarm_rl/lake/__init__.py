"""The lake: six Iceberg tables with every step of every run."""
