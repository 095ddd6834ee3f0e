"""The process of a courier: reads its order from standard input, and stops when that ends."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from alphaswarm_rl.tracking.delivery import Delivery, follow


def main() -> None:
    """Delivers the journal that its order names."""
    order = json.loads(sys.stdin.buffer.readline())
    stop = threading.Event()
    if order["follows"]:
        # The run closes its end once it is over, and so does the system where the run is killed.
        threading.Thread(target=_wait_for_the_end, args=(stop,), daemon=True).start()
    else:
        stop.set()
    for run_id, uri in order["runs"].items():
        follow(Delivery(Path(order["folder"]), run_id, uri), stop)


def _wait_for_the_end(stop: threading.Event) -> None:
    sys.stdin.buffer.read()
    stop.set()


if __name__ == "__main__":
    main()
