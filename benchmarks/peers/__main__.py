"""Make the environments that are missing: `python -m benchmarks.peers`. It takes 2.5 GB of disk."""

import sys

from benchmarks.peers import PEERS, lmplz

for peer in PEERS:
    if peer.ready:
        print(f"{peer.name}: {peer.folder} is there")
        continue
    print(f"{peer.name}: installing {' '.join(peer.requirements)} into {peer.folder}", flush=True)
    peer.install()
try:
    print(f"{lmplz.NAME}: {lmplz.PROGRAM}", flush=True)
    lmplz.build()
except RuntimeError as error:
    print(f"{lmplz.NAME} is left out: {error}", file=sys.stderr)
