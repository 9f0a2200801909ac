"""An app of somebody else's, with Longhaul in its stack: `docs/construct.md`."""
