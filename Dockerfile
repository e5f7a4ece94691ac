# docker build -t datassay .
# docker run --rm -u "$(id -u):$(id -g)" -v "$PWD:/data" datassay run yours.csv --target y
FROM python:3.12-slim AS build
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.12-slim
COPY constraints.txt /
RUN --mount=from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir -c constraints.txt torch --index-url https://download.pytorch.org/whl/cpu && \
    pip install --no-cache-dir -c constraints.txt /wheels/*.whl
# For any user.
ENV HOME=/tmp
WORKDIR /data
ENTRYPOINT ["datassay"]
