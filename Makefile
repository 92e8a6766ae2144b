# Every line can be run by hand. Only Go is needed; where there is a C compiler, too, tests run under the race detector.

GO      ?= go
FUZZ    ?= 2000x
SOAK    ?= 10m
# Which of the tests of faults; all of them.
SOAKED  ?= .
ADDR    ?= 127.0.0.1:8080
# Where "make install" puts lingserve: where "go install" puts programs.
BINDIR  ?= $(or $(shell $(GO) env GOBIN),$(firstword $(subst :, ,$(shell $(GO) env GOPATH)))/bin)
# Two at a time is what the race detector and the fuzzer leave room for on a small machine.
FUZZJOBS ?= 2
# The race detector needs cgo, which go turns off where it finds no C compiler.
RACE    ?= $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)
# Tests that run without the race detector, each with its package's folder: much work of one goroutine, in which there is no race to find and
# which would take ten times as long; and those that set GOMAXPROCS, which the detector does not bear.
ALONE    = ./adapter/TestAFastAnswerLetsOthersRun \
	./adapter/anthropic/TestRecordedAnswersAreReadAsAPlainReaderReadsThem \
	./adapter/anthropic/TestWhatIsBesideTheTextIsBounded \
	./adapter/bedrock/TestRecordedAnswersAreReadAsAPlainReaderReadsThem \
	./adapter/gemini/TestRecordedAnswersAreReadAsAPlainReaderReadsThem \
	./adapter/openai/TestRecordedAnswersOfProvidersAreReadAsAPlainReaderReadsThem \
	./adapter/responses/TestRecordedAnswersOfProvidersAreReadAsAPlainReaderReadsThem \
	./bench/parse/TestShapesAreReadRight \
	./channel/inbox/TestEachCallOfAJournalToTheDiskMayFail \
	./channel/media/TestEachCallToTheDiskMayFail \
	./channel/markup/TestAHugeTextWithoutAPlaceToCutLosesNothing \
	./channel/markup/TestALongDocumentIsConvertedAsAShortOne \
	./channel/outbox/TestEachCallOfAnOutboxToTheDiskMayFail \
	./cmd/server/TestParseCommandOfALargeInput \
	./flow/TestHostileYAMLIsRefusedQuickly \
	./internal/schema/TestNoSchemaAndNoValueTakesLong \
	./jsonuri/TestDocumentOfManyDeepArrays \
	./jsonuri/TestDocumentOfManyPieces \
	./jsonuri/TestEveryTextCutOffAnywhereIsFinished \
	./jsonuri/TestEveryValidDocumentFoldsToItsValueHoweverItIsCut \
	./jsonuri/TestRepairTakesLinearTimeForEveryText \
	./runlog/file/TestEachCallToTheDiskMayFail \
	./runlog/file/TestTheFilesOfRunningRunsAreBounded \
	./store/file/TestACutLogHasWholeBatches \
	./store/file/TestTrimmedEntriesLeaveTheDisk \
	./tape/logs/TestEachCallToTheDiskMayFail \
	./tube/TestATubeIsASliceOfEvents \
	./web/TestAHealthCheckGoesBeforeOtherConnections
alone    = ^($(subst $(subst ,, ),|,$(notdir $(ALONE))))$$

# Version of a release; the commit's tag unless given, or else one made of its time and name.
VERSION ?=

.PHONY: release image all build install run test lint format fmt vet unit compile fuzz fuzz-seconds soak long draws chaos cluster rolling bench bench-once bench-cluster bench-memory web client playground browser parts peers picture vuln clean

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

# What must pass before a change goes in. The tests come last, so that the log ends with a line for each package.
test: fmt vet fuzz-seconds unit

fmt:
	@files=$$(gofmt -l .); test -z "$$files" || { echo "gofmt has something to say about:"; echo "$$files"; exit 1; }

vet:
	$(GO) vet ./...

# What takes longest or waits begins first, so that none of it is left when all else has ended, and as many packages at once as keep two
# processors at work while some of them wait.
FIRST    = ./web ./internal/faults ./store/postgres ./cmd/server ./channel/inbox ./tape/logs ./store/file ./run ./internal/attacks ./adapter/openai \
	./tool/mcp ./internal/release ./control ./internal/chaos
UNITJOBS ?= 3
# Whatever the compiler is told of its own memory, tests are not; and the race detector has a fault of its own.
AS_USED  = "$(CURDIR)/tools/test.sh"
# Each of some hundred processes would wait for a second at its end, in which others might still be found in a race.
unit: export GORACE = atexit_sleep_ms=50
# What tests draw is the same each time; "make draws" draws other things.
unit: export RAPID_SEED = 20261123
# Nobody looks into these binaries with a debugger: -w leaves out what it would need, which takes the linker a third of its time.
unit:
	$(GO) test -vet=off -exec '$(AS_USED)' -shuffle=on -count=1 -run '$(alone)' $(sort $(dir $(ALONE)))
	$(GO) test -vet=off -ldflags=-w -exec '$(AS_USED)' $(RACE) -p $(UNITJOBS) -shuffle=on -count=1 -skip '$(alone)' $(FIRST) ./...

# What tests consist of, with and without the race detector, as packages: who runs them then only has to link.
compile:
	$(GO) list -export -test ./... >/dev/null
	$(GO) list -export -test $(RACE) ./... >/dev/null

# Some thousand inputs for every fuzz target, as they come; "make fuzz" has minutes for each, and is led by what they reach.
fuzz-seconds:
	@GO="$(GO)" ./tools/fuzz.sh $(FUZZ) $(FUZZJOBS)

fuzz:
	@GO="$(GO)" ./tools/fuzz.sh 2m $(FUZZJOBS)

# Every fault in its long form, thousands of clients against the program itself among them, and then all at once for as long as SOAK
# says, with memory, files and goroutines watched. At the end it prints the table of bench/RELIABILITY.md.
soak:
	cd internal/faults && $(GO) test $(RACE) -count=1 -timeout 0 -run '$(SOAKED)' -args -soak $(SOAK)

# The long form of tests that "make test" has in a short one: three servers as well as one, more draws, rounds and kills, larger counts.
# Some minutes.
LONG = ./channel/inbox ./channel/outbox ./control ./runlog/file ./runlog/logs ./store/postgres ./tape/logs
long:
	$(GO) test -vet=off $(RACE) -count=1 -p 1 -timeout 30m $(LONG) -args -long

# Tests of properties, each with DRAWS draws, which are others each time. Some minutes.
DRAWS ?= 1000
draws:
	RAPID_CHECKS=$(DRAWS) $(GO) test -vet=off -count=1 -timeout 0 $$(grep -rl --include=*_test.go pgregory.net/rapid . | xargs -n 1 dirname | sort -u)

# Replicas and the PostgreSQL server that they share, in processes of their own, are killed, stopped and cut off from each other, while
# SESSIONS clients and more do what they like, at least for CHAOS: what comes out is held to a model. The same SEED has the same clients
# do the same again, 0 has others each time. Some of it takes root, for network namespaces, and is left out without.
SESSIONS ?= 1000
CHAOS    ?= 5m
SEED     ?= 20261122
chaos: build
	$(GO) test -count=1 -timeout 0 -v -run TestChaos ./internal/chaos -args -program "$(CURDIR)/bin/lingserve" -sessions $(SESSIONS) -for $(CHAOS) -seed $(SEED) -faults

# A PostgreSQL server, three replicas and, if haproxy is installed, a load balancer in front of them, on this machine, to try them out.
cluster: build
	$(GO) build -o bin/clusterup ./internal/clusterup
	@exec bin/clusterup -program bin/lingserve -addr $(ADDR)

# Linters are pinned in tools/go.mod, so that the module itself stays free of them.
lint: vet
	$(GO) tool -modfile=tools/go.mod staticcheck ./...
	@files=$$($(GO) tool -modfile=tools/go.mod gofumpt -l .); test -z "$$files" || { echo "gofumpt has something to say about:"; echo "$$files"; exit 1; }

# Writes what lint asks for.
format:
	$(GO) tool -modfile=tools/go.mod gofumpt -w .

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

# The benchmarks of turns, tapes and channels once: they still run, and what they count is printed. Times of one run say nothing.
# A tape of a million entries is here, too: under the race detector, the tests have a twentieth of it.
bench-once:
	$(GO) test -run '^$$' -vet=off -bench . -benchtime 1x -benchmem -short ./turn ./tape/... ./agent ./channel/... ./bench/turns
	$(GO) test -vet=off -run LargeStores ./tape/logs

# The cost of runs that replicas share, as bench/CLUSTER.md has it: two minutes, on a machine that does nothing else.
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
	cd web/build && $(GO) vet . && $(GO) test -count=1 -run '/client' .
	cd web/client && npm pack --pack-destination ../../bin

# The page at /, which is built into the binary: its bundle and its tests.
playground:
	cd web/playground && npm ci && npm run build && npm run check
	$(GO) build -o bin/lingserve ./cmd/server
	cd web/playground && npm test
	cd web/build && $(GO) vet . && $(GO) test -count=1 -run '/playground' .

# The page at /, the client and what the documents print of it, in Chromium against the server: needs Node, npm and Chromium, which
# is found in PATH or named in CHROMIUM.
browser: build
	cd web/browser && npm ci && npm test

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
