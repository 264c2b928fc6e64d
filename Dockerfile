# Ackproof in a container, with everything that the local backend needs:
#     docker build -t ackproof .
#     docker run --rm --privileged -v "$PWD/results:/work/results" ackproof run quick
# Privileged: each run makes network namespaces and mounts of its own. These rights are enough for
# quick: --cap-add NET_ADMIN --cap-add SYS_ADMIN --cap-add SYS_PTRACE --cap-add SYS_NICE
# --security-opt seccomp=unconfined --security-opt apparmor=unconfined. Campaigns for a cluster that
# is there already need none.
#
# BASE is any Debian (or Ubuntu) with Python 3.11 or newer. `make image` builds from the base that
# `make docker-base` makes where no registry can be reached.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS system
LABEL ackproof.image=layer
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        ca-certificates default-jre-headless e2fsprogs iproute2 libfaketime mount nftables \
        openssh-client procps python3 util-linux \
 && rm -rf /var/lib/apt/lists/* /usr/share/doc/* /usr/share/man/* /var/cache/debconf/*-old

# The dependencies alone: other changes of pyproject.toml install nothing again.
FROM system AS wanted
COPY pyproject.toml /
RUN python3 -c "import tomllib; \
        print(*tomllib.load(open('/pyproject.toml', 'rb'))['project']['dependencies'], sep='\\n')" \
        > /requirements.txt

FROM system AS installed
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv \
 && python3 -m venv /opt/ackproof
WORKDIR /build
# ca-bundle.crt, where there is one: the certificates that the building machine trusts. The brackets
# make it optional; it stays in this stage.
COPY --from=wanted /requirements.txt ./
COPY constraints.txt ca-bundle.cr[t] ./
RUN if [ -f ca-bundle.crt ]; then export PIP_CERT=/build/ca-bundle.crt; fi \
 && /opt/ackproof/bin/pip install --no-cache-dir --disable-pip-version-check --progress-bar off \
        --requirement requirements.txt 'setuptools>=77' --constraint constraints.txt
COPY pyproject.toml README.md LICENSE ./
COPY ackproof/__init__.py ackproof/py.typed ackproof/
COPY broker ackproof/broker
COPY campaigns ackproof/campaigns
COPY checkers ackproof/checkers
COPY config ackproof/config
COPY harness ackproof/harness
COPY history ackproof/history
COPY infra ackproof/infra
COPY nemesis ackproof/nemesis
COPY plugins ackproof/plugins
COPY testing ackproof/testing
COPY workloads ackproof/workloads
RUN /opt/ackproof/bin/pip install --no-deps --no-build-isolation --disable-pip-version-check . \
 && /opt/ackproof/bin/python -m compileall -q /opt/ackproof/lib \
 && /opt/ackproof/bin/python -P -m ackproof.checkers.engine.spark.class_data

FROM system
LABEL org.opencontainers.image.title=Ackproof org.opencontainers.image.licenses=Apache-2.0
ENV PATH=/opt/ackproof/bin:$PATH
COPY --from=installed /opt/ackproof /opt/ackproof
# For containers that need no root, as those of deploy/helm: Java wants its user to have a name.
RUN useradd --uid 10001 --home-dir /tmp --no-create-home --shell /usr/sbin/nologin ackproof
WORKDIR /work
ENTRYPOINT ["ackproof"]
CMD ["--help"]
