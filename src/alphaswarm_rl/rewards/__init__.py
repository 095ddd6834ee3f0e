"""What is rewarded: one file per term."""
