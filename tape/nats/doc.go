// Package nats keeps tapes in NATS JetStream, for several replicas of the server that share their sessions. It is named after
// its folder, as the other stores are; the client's packages have other names in it.
//
// # What is stored
//
// One stream, TAPES, with the subjects
//
//	<prefix>.tapes.<tape>.e            the batches of a tape, one behind another
//	<prefix>.tapes.<tape>.b.<handle>   a blob: what it is, or the first of its parts
//	<prefix>.tapes.<tape>.f.<fork>.…   a fork, which is a tape like the others
//
// A batch is one message: its lines are the payload, and a header has all that is known of the tape after it ([tape.Info]), so
// the last message of a subject tells about a tape, and the tape is never read for that. The header also says where the batches
// before it lie, some dozens at a time, so any part of a tape is found by a few requests for single messages, whatever the
// length of the tape and of the stream. A batch that is too large for one message is several, which JetStream stores
// at once or not at all (its atomic publish, which needs servers of version 2.12).
//
// A tape that is erased leaves a marker that says so, for the listings of all replicas, and goes away after an hour.
//
// # Guarantees
//   - A batch is appended only behind the message that its writer has seen (the expected last sequence of the subject): two
//     writers never write for each other's state, whoever believes what about leases.
//   - After an append without an answer the store asks which message took the place behind the one that was seen. It is never
//     written twice, and never in part.
//   - A lease has an epoch, which each message carries on. Who appends under a lease that another one has taken since, is
//     refused with tape.ErrLeased, and its lease is lost.
//   - What a tape is, is asked of the leader of the stream, so what one replica appended, the next one sees. That there is no tape is
//     confirmed by more than half of the servers, since one that led once may not know better. Messages that are known to exist are read
//     from any copy.
//   - A listing is made of an index of some 150 bytes a session in memory, which follows the stream, and which is first brought up
//     to the moment of the request.
//   - While the servers are away, calls wait some seconds for them; then they fail with the code "overloaded".
//
// While a part of the servers is cut off from the others, a replica that reaches only the cut off part may see a tape as it was, for
// some ten seconds. It cannot append to it, nor take a lease.
package nats
