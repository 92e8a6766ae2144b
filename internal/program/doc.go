// Package program builds the server and runs it in a process of its own, as people do, for tests and benchmarks.
//
// # Guarantees
//   - A process sees nothing of the environment of the one that starts it but what every program needs.
//   - Start returns when the server takes requests, or with an error that has the end of what the server has said.
//   - Behind Stop, Kill and Wait the process is gone, and all that it has said is in its log.
package program
