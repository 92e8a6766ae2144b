# syntax=docker/dockerfile:1
#
# docker build --build-arg VERSION=v1.2.3 --build-arg COMMIT=$(git rev-parse HEAD) --build-arg DATE=$(git log -1 --format=%cI) -t lingserve .
#
# The same as "make image". The image has the binary, the certificates of public authorities, and nothing else: no shell, no package,
# and a user who may write to /data only.

# The digest pins the image that builds: GO_IMAGE=golang:1.26-bookworm@sha256:…, which "make image" asks for where it is told a VERSION.
ARG GO_IMAGE=golang:1.26-bookworm
FROM --platform=$BUILDPLATFORM $GO_IMAGE AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION=devel COMMIT= DATE=
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false \
        -ldflags "-s -w -buildid= -X main.releaseVersion=$VERSION -X main.releaseCommit=$COMMIT -X main.releaseDate=$DATE" \
        -o /root-of-image/lingserve ./cmd/server && \
    mkdir -p /root-of-image/data /root-of-image/workspace /root-of-image/etc/ssl/certs && \
    cp /etc/ssl/certs/ca-certificates.crt /root-of-image/etc/ssl/certs/ && \
    cp LICENSE /root-of-image/

FROM scratch
COPY --from=build /root-of-image/etc /etc
COPY --from=build /root-of-image/LICENSE /LICENSE
COPY --from=build --chown=65532:65532 /root-of-image/data /data
COPY --from=build --chown=65532:65532 /root-of-image/workspace /workspace
COPY --from=build /root-of-image/lingserve /lingserve
USER 65532:65532
WORKDIR /
ENV LINGSERVE_ADDR=0.0.0.0:8080 LINGSERVE_DATA=/data LINGSERVE_WORKSPACE=/workspace LINGSERVE_LOG_FORMAT=json
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["/lingserve", "health"]
ENTRYPOINT ["/lingserve"]
CMD ["serve"]
