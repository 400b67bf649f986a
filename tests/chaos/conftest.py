import sys
from pathlib import Path

# The driver and its programs stand beside this file and find each other by name.
sys.path.insert(0, str(Path(__file__).parent))
