"""Workers end with the process that started them, however that ends."""

import os
import threading
import time

_LOOKS_EVERY_S = 1.0


def end_with_parent() -> None:
    """End this process soon after its parent has ended: nothing else would stop its hours of work.

    The parent may be killed by a signal that it cannot handle, so it cannot end its workers itself.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOKS_EVERY_S)
        os._exit(1)  # at once, whatever the other threads do

    threading.Thread(target=watch, name="parent", daemon=True).start()
