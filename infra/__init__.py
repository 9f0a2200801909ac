"""The app that `cdk deploy` deploys: one stack, made of the parts in `longhaul.cdk`."""
