"""The records of the port as messages of the protocol `stanchion.v1`, which needs `pip install 'stanchion[grpc]'`."""
