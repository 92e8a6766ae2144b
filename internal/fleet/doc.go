// Package fleet runs several servers of one installation on this machine, each in a process of its own: NATS servers, replicas of
// the program, and a load balancer in front of them. Tests kill them, and whoever wants to see how it is done tries them out.
//
// A program that uses it calls [Main] first, since a NATS server is that program itself, started once more.
//
// # Guarantees
//   - All is on this machine: on loopback, or in network namespaces that nothing else is in.
//   - A process that is started again has the address and the data that it had.
//   - Behind Close no process is left, and no namespace.
package fleet
