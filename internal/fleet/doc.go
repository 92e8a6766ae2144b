// Package fleet runs replicas of the program on this machine, each in a process of its own, and a load balancer in front of them. The replicas
// share a PostgreSQL database that the caller has started. Tests kill them, and "make cluster" lets people try them out.
//
// # Guarantees
//   - All is on this machine: on loopback, or in network namespaces of the fleet.
//   - A process that is started again has the address and the data that it had.
//   - After Close no process and no namespace is left.
package fleet
