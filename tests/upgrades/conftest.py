import sys
from pathlib import Path

# The story and the fixtures stand beside this file.
sys.path.insert(0, str(Path(__file__).parent))
