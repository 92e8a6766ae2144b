// Package faults holds no code of the product: its tests put the whole of it (web server, workflows, adapters) between real
// clients and a scripted model's server, which speaks the format of each provider, all on real sockets of this machine, and then
// break what can break: the model, the network, the clients, the clock, the limits of the system. What is checked is what a user
// sees, and that nothing is left behind: no goroutine, no connection, no key in an answer or in the log.
// Turns are there, too: processes with the agent and tapes on a disk are killed, work beside each other, and find the disk full.
//
// What happens to the server's process, and to those of its clients, is done to the program itself, which is built for that
// (TestSoakOfTheProcess).
//
//	go test -race -tags nightly ./internal/faults                                  some seconds of each
//	go test -race -tags nightly ./internal/faults -run Soak -soak 10m -timeout 0   everything at once, for as long as wanted
//	go test -tags nightly ./internal/faults -run Burst -burst 10000                as many clients as are wanted
package faults
