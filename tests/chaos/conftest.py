import sys
from pathlib import Path

# The driver and its programs stand beside this file and find each other by name.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "observe")]
