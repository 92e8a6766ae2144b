// Package attacks holds no code of the product: its tests attack the binary as users get it, with everything wired (agents, tools,
// workflows, channels of each kind, a data folder), through its sockets alone, and look from outside at what it has answered, logged,
// written to disk and asked of others. docs/security.md says which test is against which threat.
//
// What can be attacked more thoroughly from inside (every split of a stream, every byte of a file, time that goes by) is tested beside
// the code that it concerns; docs/security.md names those tests as well.
//
//	go test -race ./internal/attacks
//	go test ./internal/attacks -program /path/to/lingserve   a program that was built before, such as a released one
package attacks
