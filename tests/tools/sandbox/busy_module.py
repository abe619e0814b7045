"""A module that leaves a thread running when it is imported."""

from __future__ import annotations

import threading
import time

threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
