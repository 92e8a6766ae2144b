# Every line can be run by hand. Only Go is needed; where there is a C compiler, too, some tests run under the race detector.

GO      ?= go
ADDR    ?= 127.0.0.1:8080
# Where "make install" puts lingserve: where "go install" puts programs.
BINDIR  ?= $(or $(shell $(GO) env GOBIN),$(firstword $(subst :, ,$(shell $(GO) env GOPATH)))/bin)
# The race detector needs cgo, which go turns off where it finds no C compiler.
RACE    ?= $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)

# Version of a release; the commit's tag unless given, or else one made of its time and name.
VERSION ?=

.PHONY: release image all build install run test lint format fmt vet unit nightly nightly-go fuzz soak draws chaos cluster rolling bench bench-once bench-cluster bench-memory web client playground browser smoke parts peers picture vuln clean

all: test

build:
	$(GO) build -o bin/lingserve ./cmd/server

# "go install" would call the program server, after its folder.
install:
	$(GO) build -o "$(BINDIR)/lingserve" ./cmd/server
	@command -v lingserve >/dev/null || echo "lingserve is in $(BINDIR); add that folder to your PATH"

# Workflows are read again when their files change.
run: build
	./bin/lingserve serve --addr $(ADDR) --watch

# What a change must pass. Nothing here measures time or needs a network; a busy machine only takes longer.
test: fmt lint unit

fmt:
	@files=$$(gofmt -l .); test -z "$$files" || { echo "gofmt has something to say about:"; echo "$$files"; exit 1; }

vet:
	$(GO) vet -tags nightly ./...

# Packages whose goroutines matter and whose tests have a clock of their own, or none: they run under the race detector.
RACED   = ./tube ./ling ./bot ./flow ./turn ./agent ./agent/workflow ./web/wire/agui ./web/wire/aisdk ./web/wire/native ./web/wire/openai
# No test is cut off by this on a busy machine; it ends a test that hangs.
TIMEOUT ?= 30m
# What tests draw is the same each time; "make draws" draws other values.
unit nightly-go: export RAPID_SEED = 20261123
# Each raced package would wait for a second at its end.
unit nightly-go: export GORACE = atexit_sleep_ms=50
# -w leaves out what only a debugger needs, which takes the linker a third of its time. More tests run at a time than there are processors,
# because some wait for programs. The race detector of Go 1.26 crashes where two threads run timers of one synctest bubble (golang/go#78156),
# so raced tests have one thread; they draw less, because each draw takes them ten times as long.
unit: TEST = $(GO) test -vet=off -ldflags=-w -timeout $(TIMEOUT) -shuffle=on -count=1
unit:
	$(TEST) -p 4 $$($(GO) list ./... $(if $(RACE),| grep -vxF "$$($(GO) list $(RACED))"))
	$(if $(RACE),RAPID_CHECKS=30 $(TEST) $(RACE) -cpu 1 $(RACED))

# Everything else that is tested, before a release and before an issue counts as done: at most an hour on two processors.
# It needs PostgreSQL, Node 20, npm, Chromium and haproxy (Debian: postgresql, nodejs, npm, chromium, haproxy).
nightly: test nightly-go fuzz web browser parts chaos peers rolling bench-once

# All Go tests in their long form, under the race detector, with PostgreSQL, faults, attacks and kills.
nightly-go: export LINGSERVE_NIGHTLY = 1
nightly-go:
	$(GO) test -vet=off -ldflags=-w -tags nightly -timeout $(TIMEOUT) $(if $(RACE),$(RACE) -cpu 1) -p 2 -shuffle=on -count=1 ./...
	$(if $(RACE),$(GO) test -vet=off -ldflags=-w -tags nightly -timeout $(TIMEOUT) -shuffle=on -count=1 $(RACED)) # on all processors

# Each fuzz target for FUZZ, two packages at a time.
FUZZ    ?= 5s
fuzz:
	@GO="$(GO)" ./tools/fuzz.sh $(FUZZ) 2

# The tests of faults with thousands of clients, and everything at once for as long as SOAK says. They print the figures of bench/RELIABILITY.md.
SOAK    ?= 10m
soak: export LINGSERVE_NIGHTLY = 1
soak:
	$(GO) test -tags nightly -count=1 -timeout 0 -v ./internal/faults -args -soak $(SOAK)

# Tests of properties, each with DRAWS draws, which are others each time. Some minutes.
DRAWS ?= 1000
draws:
	RAPID_CHECKS=$(DRAWS) $(GO) test -vet=off -count=1 -timeout 0 $$(grep -rl --include=*_test.go pgregory.net/rapid . | xargs -n 1 dirname | sort -u)

# Replicas and the PostgreSQL server that they share, in processes of their own, are killed, stopped and cut off from each other, while
# SESSIONS clients and more do what they like, at least for CHAOS: what comes out is held to a model. The same SEED has the same clients
# do the same again, 0 has others each time. Some of it takes root, for network namespaces, and is left out without.
SESSIONS ?= 500
CHAOS    ?= 2m
SEED     ?= 20261122
chaos: build
	LINGSERVE_NIGHTLY=1 $(GO) test -tags nightly -count=1 -timeout 0 -v -run TestChaos ./internal/chaos -args -program "$(CURDIR)/bin/lingserve" -sessions $(SESSIONS) -for $(CHAOS) -seed $(SEED) -faults

# A PostgreSQL server, three replicas and, if haproxy is installed, a load balancer in front of them, on this machine, to try them out.
cluster: export LINGSERVE_NIGHTLY = 1
cluster: build
	$(GO) build -o bin/clusterup ./internal/clusterup
	@exec bin/clusterup -program bin/lingserve -addr $(ADDR)

# Linters are pinned in tools/go.mod, so that the module itself stays free of them.
lint: vet
	$(GO) tool -modfile=tools/go.mod staticcheck -tags nightly ./...
	@files=$$($(GO) tool -modfile=tools/go.mod gofumpt -l .); test -z "$$files" || { echo "gofumpt has something to say about:"; echo "$$files"; exit 1; }

# Writes what lint asks for.
format:
	$(GO) tool -modfile=tools/go.mod gofumpt -w .

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

# The benchmarks of turns, tapes and stored runs once: they still run, and what they count is printed. Times of one run say nothing.
bench-once:
	$(GO) test -run '^$$' -vet=off -bench . -benchtime 1x -benchmem -short ./turn ./tape/... ./agent ./bench/turns
	LINGSERVE_NIGHTLY=1 $(GO) run ./bench/cluster -runs 4 -time 200ms

# The cost of storing runs and of sharing them between replicas, as bench/CLUSTER.md has it: three minutes, on a machine that does nothing else.
bench-cluster: export LINGSERVE_NIGHTLY = 1
bench-cluster:
	$(GO) run ./bench/cluster

# Floods at a server in a memory control group of 512 MiB and of 1 GiB, as bench/MEMORY.md has them: some minutes, as root on Linux.
bench-memory:
	$(GO) run ./bench/memory

# What browsers load. Only these need Node and npm; what they make is committed, so that nothing else does.
web: client playground

# The npm package in web/client: its bundles and types, its tests against the server, and bin/lingserve-client-VERSION.tgz, which can be
# installed and published as it is.
client: build
	cd web/client && npm ci && npm run build && npm run check && npm test
	cd tools/web && $(GO) vet . && $(GO) test -count=1 -run '/client' .
	cd web/client && npm pack --pack-destination ../../bin

# The page at /, which is built into the binary: its bundle and its tests.
playground:
	cd web/playground && npm ci && npm run build && npm run check
	$(GO) build -o bin/lingserve ./cmd/server
	cd web/playground && npm test
	cd tools/web && $(GO) vet . && $(GO) test -count=1 -run '/playground' .

# The page at /, the client and what the documents print of it, in Chromium against the server: needs Node, npm and Chromium, which
# is found in PATH or named in CHROMIUM.
browser: build
	cd web/browser && npm ci && npm test

# One run on the page at /, in Chromium.
smoke: build
	cd web/browser && npm ci && npm run smoke

# The parts of the page at / by themselves, in Chromium, too, which is driven by what web/browser has.
parts: build
	cd web/browser && npm ci
	cd web/playground && npm ci && npm run browser

# The animated pictures of README.md, recorded from the page at / in Chromium: also needs img2webp (Debian: webp).
picture: build
	cd web/browser && npm ci && node picture.mjs

# The clients that are published by others, as many of each as people use: they talk to the server, or to the stand-ins of its tests.
# Minutes; it needs Node and npm.
PEERS = bench/peers bench/peers/compat bench/peers/aisdk bench/peers/agui bench/peers/mcp bench/peers/telegram bench/peers/slack
peers:
	for folder in $(PEERS); do npm install --no-audit --no-fund --silent --prefix $$folder && $(GO) run ./$$folder || exit 1; done

# Clients that are published by others read runs through haproxy while the replicas behind it are restarted; it needs Node, npm and haproxy.
rolling: export LINGSERVE_NIGHTLY = 1
rolling: build
	npm install --no-audit --no-fund --silent --no-package-lock --prefix bench/peers/rolling
	$(GO) run ./bench/peers/rolling -program bin/lingserve

# What is given out, in dist/: archives for each system with checksums and bills of materials. It builds the commit, whatever the work
# tree holds, and the same commit gives the same bytes.
release:
	$(GO) run ./internal/release -out dist -version "$(VERSION)"

# A container image of the commit. That of a release names the digest of the image that builds it; docs/operate/install.md says where it is from.
GO_IMAGE ?= golang:1.26-bookworm
image:
	@test -z "$(VERSION)" || case "$(GO_IMAGE)" in *@sha256:*) ;; *) \
		echo "expected a digest in GO_IMAGE for a release: make image VERSION=$(VERSION) GO_IMAGE=$(GO_IMAGE)@sha256:..." >&2; exit 2 ;; esac
	git archive HEAD | docker build -t lingserve --build-arg GO_IMAGE="$(GO_IMAGE)" --build-arg VERSION="$(or $(VERSION),devel)" --build-arg COMMIT=$$(git rev-parse HEAD) \
		--build-arg DATE=$$(git log -1 --format=%cI) -

# What is known to be wrong with what the program is made of; docs/security.md says how to get the database, once. No network.
vuln: build
	@test -n "$(DB)" || { echo "say which database: make vuln DB=path/to/vulndb.zip" >&2; exit 2; }
	$(GO) run ./internal/vuln -db "$(DB)" bin/lingserve

clean:
	rm -rf bin dist
