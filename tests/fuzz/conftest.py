import sys
from pathlib import Path

# The strategies stand beside this file; the terminal is the one of the tests of the command line.
sys.path[:0] = [str(Path(__file__).parent)]
