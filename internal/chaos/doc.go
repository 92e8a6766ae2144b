// Package chaos holds no code of the product: its tests run several replicas of the program and the PostgreSQL server that they share, each in a
// process of its own, let clients begin runs, follow them, come back and talk in sessions, and meanwhile kill, stop and part the
// processes. What every client has seen is held to a model of what must come out:
//
//   - a document that is said to be complete is the one that its input gives; every other end says why;
//   - the ids that a client sees go up one by one, but for the leap to a multiple of 2³² after a replica has died;
//   - all who read a run see the same end, on whichever replica;
//   - a model is asked once for a run, unless its workflow is one that is begun again;
//   - the tape of a session has the turns that were acknowledged, each once and in order.
//
// What a session does follows from a seed and the session's number; when something breaks is a matter of chance.
//
//	go test -race -tags nightly ./internal/chaos                                          some seconds
//	go test -tags nightly ./internal/chaos -timeout 0 -args -sessions 1000 -for 10m       as make chaos does
//	go test -tags nightly ./internal/chaos -timeout 0 -args -sessions 1000 -seed 7        the same sessions again
package chaos
