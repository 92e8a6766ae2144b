// Package replicas knows which replicas of the server run, grants their leases, and carries requests from one replica to another.
//
// A replica is one process. [Join] makes it a member of those that share a table of package store, on whatever engine; [Alone] is the only
// member there is, which needs no table, no network and no goroutine.
//
// # Guarantees
//   - A lease has one holder. If the holder's process ends or stops, the lease is free within [TTL] and a second.
//   - While the store is away, nobody is taken for dead, and leases stay held for Options.Grace.
//   - A process that was stopped for longer than TTL has lost its leases when it goes on, before it asks anybody.
//
// # Fencing
//
// A lease keeps two replicas from working on the same thing for long. It does not keep a replica that has lost it from writing: a process
// can be stopped (SIGSTOP, a sleeping machine, a long pause of the hypervisor) between its check of the lease and its write. It cannot
// notice that, and no store can notice it by the lease, because by the clock of the stopped process no time has passed. So each write names
// the revision that it expects (see package store). The next holder changes that revision before it does anything else, and a late write of
// the former holder fails with store.ErrMoved. What the members add is that such writes are rare: after a pause the life of this process
// has ended as soon as any of its goroutines asks ([Members.check] compares the clock with the last tick of the loop and with the last beat
// that was stored), all its leases are lost at once, and the replica begins another life under the same id. The monotonic clock does not
// run while a machine sleeps, so the loop also compares it with the wall clock: if they disagree, a lease counts as not held until the next
// beat is stored.
//
// The table is not synced. If the store's machine fails, it may lose leases that were taken in the last second, and another replica may
// take one of them; then the revisions of what they write decide, too.
package replicas
