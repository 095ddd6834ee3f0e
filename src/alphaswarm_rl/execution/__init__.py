"""From target weights to orders, and whoever fills or stops them."""
