"""Waits on the nodes that are named, for good."""

import sys
import time

import shoal

shoal.map(lambda x: time.sleep(1000), range(9), nodes=[int(word) for word in sys.argv[1:]])
