"""`longhaul rehearse`: what AWS itself answers about a deployment, before there is one."""
