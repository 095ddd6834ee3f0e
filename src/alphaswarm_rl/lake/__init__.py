"""The lake: four Iceberg tables with every step of every run."""
