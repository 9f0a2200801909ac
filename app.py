"""The app that `cdk deploy` runs, by `cdk.json`; alone, `python app.py` writes `cdk.out/`."""

import sys

from infra.stack import main

if __name__ == "__main__":
    sys.exit(main())
