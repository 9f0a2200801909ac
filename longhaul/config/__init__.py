"""What a stack is told: settings, projects, stages, sizes. Nothing here imports the CDK."""
