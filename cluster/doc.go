// Package cluster is what several replicas share: a NATS JetStream, the connection to it, and who of them is there.
//
// A replica is one process of the server. [Open] connects it to the servers of an installation or runs one of them in the
// process, which is a JetStream of one node or one of three. What is stored is in streams that [Cluster.Stream]
// makes, under names that begin with the installation's prefix.
//
// # Guarantees
//   - A connection that is lost is made again, for ever. Meanwhile nothing is buffered: a publish fails at once, and
//     whoever has something to store keeps it until [State] says that it can be stored.
//   - A stream that is there never gets fewer copies by itself, whatever a replica believes about the servers.
//   - No password, token or user of a URL is in an error or a line of the log.
//
// # What is on the disk
//
// A message is acknowledged when it is written. JetStream syncs what was written every two minutes, unless it is told to sync
// always, which is a setting of a server and not of a stream. An embedded server syncs always. Who runs servers of their own
// sets `jetstream { sync_interval: always }`, without which a power cut of all servers that have a message may lose the last
// two minutes; a process that is killed loses nothing either way.
//
// A stream that need not survive a power cut says so with jetstream.AsyncPersistMode. [Cluster.Stream] takes it away where a
// server knows it not, before 2.12, and for streams of more copies than one, which cannot have it: their log of changes is
// synced as the server is, many messages with one sync. With one copy, such a stream is written some milliseconds after it
// was acknowledged: a server that is killed loses them.
//
// A message of 500 bytes on two cores with a disk that syncs in 0.2 ms, the servers in one process, one publisher and 256:
//
//	one server, synced            0.24 ms   1 800/s   each message is a sync, one after the other
//	one server, AsyncPersistMode  0.03 ms  70 000/s
//	three servers, synced         1.0 ms   10 000/s   on one disk
//	three servers, in memory      0.13 ms  15 000/s
//
// # Leaders
//
// A server that is stopped gives its leaderships away, which costs some 20 ms. One that is killed, or whose machine is, is missed
// after 4–9 s: so long JetStream waits before it elects, and it cannot be told to wait less. Meanwhile nothing of its streams
// is stored, and [State] says so. Whoever holds a lease keeps it.
//
// One that stood still, or was cut off, answers as if it still led when it goes on, for a moment. What it says that there is was there; what
// it says that there is not, may be: see [Barrier].
//
// # Permissions
//
// The account of a replica must have JetStream. With permissions by subject it publishes and subscribes to `<prefix>.>`, `$JS.>` and
// `_INBOX.>`.
package cluster
