"""Make the environments that are missing: `python -m benchmarks.peers`. It takes 2.5 GB of disk."""

from benchmarks.peers import PEERS

for peer in PEERS:
    if peer.ready:
        print(f"{peer.name}: {peer.folder} is there")
        continue
    print(f"{peer.name}: installing {' '.join(peer.requirements)} into {peer.folder}", flush=True)
    peer.install()
