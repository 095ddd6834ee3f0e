"""The lock of what a process has only once."""

from __future__ import annotations

import threading

#: One verb at a time in a process: torch's threads and the global generators that Stable-Baselines3 draws from are the
#: process's, and two runs that shared them would not repeat themselves. Runs side by side are processes.
one_at_a_time = threading.RLock()
