// Package attacks holds no code of the product: its tests attack the binary as users get it, with everything wired (agents, tools,
// workflows, channels of each kind, a data folder), through its sockets alone, and look from outside at what it has answered, logged,
// written to disk and asked of others.
//
// What can be attacked more thoroughly from inside (every split of a stream, every byte of a file, time that goes by) is tested in the
// package that it concerns.
//
//	go test -race -tags nightly ./internal/attacks
//	go test -tags nightly ./internal/attacks -program /path/to/lingserve   a program that was built before, such as a released one
package attacks
