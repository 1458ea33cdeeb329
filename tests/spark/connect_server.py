"""A Spark Connect server: `python -m tests.spark.connect_server PORT`.

It says when it is ready, and ends with its input.
"""

import sys

from stanchion.spark import session
from tests.spark.conftest import FAST
from tests.spark.supervision import one_at_a_time

if __name__ == "__main__":
    with one_at_a_time():
        server = session(
            "local[2]",
            **FAST,
            **{
                "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
                "spark.connect.grpc.binding.address": "127.0.0.1",
                "spark.connect.grpc.binding.port": sys.argv[1],
            },
        )
    print("ready", flush=True)
    sys.stdin.read()
    server.stop()
