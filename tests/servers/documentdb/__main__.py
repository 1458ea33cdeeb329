"""Run the gateway: python -m tests.servers.documentdb ADDRESS-OF-POSTGRESQL KIND=PORT ...

A kind is standalone, replica-set or mongos: what a client on that port sees. All show the same databases.
"""

import sys
import threading
from typing import cast

from tests.servers.documentdb.context import Like
from tests.servers.documentdb.gateway import Gateway


def main() -> None:
    """Serve until the process is ended."""
    gateway = Gateway(sys.argv[1])
    listeners = []
    for argument in sys.argv[2:]:
        like, port = argument.split("=")
        listeners.append(threading.Thread(target=gateway.listen, args=(int(port), cast("Like", like))))
        listeners[-1].start()
    for listener in listeners:
        listener.join()


main()
