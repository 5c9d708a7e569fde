"""Computes for some seconds, then the same again at once, and says whether both results are the same."""
import hashlib
import sys
import time


def chain(rounds):
    data = bytearray(b"x" * 100_000)
    digest = b""
    for _ in range(rounds):
        digest = hashlib.sha256(data + digest).digest()
        data[int.from_bytes(digest[:3], "big") % len(data)] ^= digest[3]
    return digest


until, rounds = time.monotonic() + float(sys.argv[1]), 0
data, digest = bytearray(b"x" * 100_000), b""
while time.monotonic() < until:
    digest = hashlib.sha256(data + digest).digest()
    data[int.from_bytes(digest[:3], "big") % len(data)] ^= digest[3]
    rounds += 1
print("well" if chain(rounds) == digest and rounds > 0 else "another result")
