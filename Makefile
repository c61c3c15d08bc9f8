# The nested modules that go.work joins with the root.
NESTED := $(shell sed -n 's|^[[:space:]]*\./||p' go.work)
# The peers of the benchmarks would lift everybody's versions, so they stay outside.
PEERS := bench
ROUNDS ?= 1000
FUZZTIME ?= 30s
# Targets are relative, since make splits a path that has a space.
LINT := bin/golangci-lint
# Built, not `go run`, which neither returns the exit code nor passes on a SIGTERM.
SERVICES := bin/services

.DEFAULT_GOAL := help
.PHONY: $(SERVICES) help check format lint tidy alone elsewhere test test/race test/short test/stress test/stress/inside test/inside fuzz bench demo

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z\/]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

check: lint tidy alone elsewhere ## format, vet, lint, tidy, the root by itself, and on other systems

$(LINT): internal/tools/go.mod
	cd internal/tools && GOWORK=off go build -o ../../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

lint: $(LINT)
	go vet work
	@for m in . $(NESTED); do echo "lint $$m"; (cd $$m && "$(CURDIR)/$(LINT)" fmt --diff && "$(CURDIR)/$(LINT)" run ./...) || exit 1; done
	@for m in $(PEERS); do echo "lint $$m"; (cd $$m && export GOWORK=off && "$(CURDIR)/$(LINT)" fmt --diff && "$(CURDIR)/$(LINT)" run ./...) || exit 1; done

format: $(LINT) ## format all files
	@for m in . $(NESTED) $(PEERS); do (cd $$m && "$(CURDIR)/$(LINT)" fmt) || exit 1; done

tidy:
	@for m in . $(NESTED) $(PEERS) internal/tools; do echo "tidy $$m"; (cd $$m && GOWORK=off go mod tidy -diff) || exit 1; done

# The workspace lifts versions: users see those of the root's own go.mod.
alone:
	GOWORK=off go vet ./...
	GOWORK=off go build ./...

# Nobody runs the files for other systems here, so at least they build.
elsewhere:
	CGO_ENABLED=0 GOOS=darwin go vet work
	CGO_ENABLED=0 GOOS=windows go vet work

$(SERVICES):
	@go build -o $@ ./test/cmd/services

test: $(SERVICES) ## start the servers and run all tests with the race detector
	$(SERVICES) -- $(MAKE) test/inside

# The root once more with its own versions, which the workspace lifts.
test/inside: test/race
	GOWORK=off go test -short -timeout 20m ./...
	cd bench && GOWORK=off go test -race ./...

test/race: ## the same on the servers that HOLDFAST_TEST_POSTGRES and HOLDFAST_TEST_REDIS name, or local ones
	go test -race -shuffle=on -timeout 20m work

test/short: ## without the long campaigns
	go test -short -timeout 10m work

test/stress: $(SERVICES) ## the random campaigns, the soak of leases (10 minutes at 1000) and the crash stories, ROUNDS rounds each
	HOLDFAST_ROUNDS=$(ROUNDS) $(SERVICES) -- $(MAKE) test/stress/inside

test/stress/inside:
	go test -race -timeout 10h work
	go run ./examples/payments -crash -rounds $(ROUNDS)
	go run ./examples/webhooks -crash -rounds $(ROUNDS)
	go run ./examples/payments -crash -rounds $(ROUNDS) -dsn "$$HOLDFAST_TEST_POSTGRES"
	go run ./examples/webhooks -crash -rounds $(ROUNDS) -dsn "$$HOLDFAST_TEST_POSTGRES"

fuzz: ## each fuzz target for FUZZTIME
	.ci/fuzz $(FUZZTIME)

bench: $(SERVICES) ## benchmarks beside hand-written SQL and peers; ARGS="-only idem -c 8"
	cd bench && GOWORK=off go build -o ../bin/bench .
	$(SERVICES) -- bin/bench $(ARGS)

demo: ## the tour of the examples
	go run ./examples/tour
