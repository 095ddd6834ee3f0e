"""`python -m alphaswarm_rl.cli` is `rl`."""

from alphaswarm_rl.cli import main

main()
