"""Steps a second of the trading environments: `rl bench env`, whose options it takes.

    python benchmarks/env_throughput.py [--num-envs N]... [--rounds 11] [--json]

`make bench-peers` installs the peers first.
"""

import sys

from alphaswarm_rl.cli import rl

if __name__ == "__main__":
    rl.main(["bench", "env", *sys.argv[1:]])
