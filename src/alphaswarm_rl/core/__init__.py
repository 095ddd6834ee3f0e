"""What every other part stands on: components, the catalogue, hashing, errors, seeding, the halt token."""
