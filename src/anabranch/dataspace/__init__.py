"""Data servers and their clients: columns with their keys over the network, as streams and by range queries.

The data web of M. Mazzucco et al., "Merging Multiple Data Streams on Common Keys over High Performance
Networks" (2002), §4.2 and §5, on Arrow Flight.
"""

import os

# gRPC would tell each failed handshake on standard error, between a user's tables; errors of ours say what went wrong.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
