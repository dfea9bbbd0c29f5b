"""`python -m anabranch.cli`, the same as the installed command."""

from __future__ import annotations

import sys

from anabranch.cli.main import main

sys.exit(main())
