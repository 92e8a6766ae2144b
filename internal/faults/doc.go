// Package faults contains no product code. Its tests run the program in a process of its own, as users do, break what only a complete program
// has (its clients' processes, the network, the disk, its files, memory and clock), and check what users see and what the process still holds
// afterwards. Kills of servers that are followed, and of replicas, are in internal/chaos. Faults of models, clients and stores that one package
// can show are tested in that package.
//
//	LINGSERVE_NIGHTLY=1 go test -tags nightly ./internal/faults      some seconds of each, as make nightly does
//	go test -tags nightly -timeout 0 ./internal/faults -v -soak 10m  larger numbers, and everything at once for that long, as make soak does
package faults
