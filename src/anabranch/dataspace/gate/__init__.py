"""What stands before a data server: it looks at what clients send, before the server keeps any of it.

Arrow Flight's server takes in a whole request, of any size, compressed or not, before anything of ours is called. So it
listens on a socket that only this process reaches, and the gate passes on what may pass: `headers.py` reads who asks,
`requests.py` how much, `connections.py` for how long, `listener.py` how many. Answers go through untouched.
"""

from anabranch.dataspace.gate.listener import Gate, Limits

__all__ = ["Gate", "Limits"]
