"""ladder grade SUBMISSIONS --assignment WEEK.toml --out GRADES: see docs/grading.md."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from grade.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
