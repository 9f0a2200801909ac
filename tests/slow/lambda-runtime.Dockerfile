# The same runtime client as public.ecr.aws/lambda/python:3.13, started the same way, for machines
# without access to a registry.
ARG PYTHON_IMAGE
FROM ${PYTHON_IMAGE}
RUN python3 -m venv /var/lang && /var/lang/bin/pip install --no-cache-dir awslambdaric==4.2.2
RUN mkdir -p /var/runtime /var/task \
    && printf '#!/bin/sh\nexec /var/lang/bin/python -m awslambdaric "$_HANDLER"\n' > /var/runtime/bootstrap \
    && chmod +x /var/runtime/bootstrap
ENV LAMBDA_TASK_ROOT=/var/task PYTHONPATH=/var/task:/opt/python
WORKDIR /var/task
