import sys
from pathlib import Path

# The simulation stands beside this file and is found by name.
sys.path.insert(0, str(Path(__file__).parent))
