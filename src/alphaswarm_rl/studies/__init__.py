"""Many runs: studies that train and judge again and again through one typed context."""
