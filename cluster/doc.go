// Package cluster connects the replicas that share one database. It records which replicas are alive, forwards HTTP requests to
// the replica that holds their run or session, and has leases for what only one replica may do.
//
// # Guarantees
//
//   - Each replica writes a heartbeat once a second. A replica that the database has not seen for 5 s is dead.
//   - A replica declares others dead only if the database has seen it for 5 s without a gap. An outage of the database, or a pause of
//     this process, therefore kills no replica.
//   - All times come from the database's clock. The clocks of the machines do not matter.
//   - A request is forwarded once, and executed once at most. The receiver rejects a copy of it.
//   - A forwarded response that breaks off is broken for the client, too. It never looks complete.
//   - A request to a replica that is declared dead is canceled at once.
//   - Of the replicas that are alive, one has a lease. The leases of a replica that dies or leaves are free for the others. If it goes on, it
//     learns that with its next heartbeat.
//
// The package knows nothing of SQL, runs or sessions.
package cluster
