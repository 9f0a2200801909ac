"""`longhaul check --change-set`: what CloudFormation says of a deployment before there is one."""
