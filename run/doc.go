// Package run has the runs of a server: it starts them, finds them, lets callers follow, cancel and answer them, and drains.
//
// A run that was started belongs to the service and not to the request that started it: a client that goes away leaves it running, and
// comes back with the number of the last event that it has seen. Runs end by themselves, by being canceled, by their timeout, or with the
// server.
//
// # Words
//
// A request is what a caller wants started. The place of a run is the replica that works on it; a follower is a copy of a run at another
// replica. A run is accepted when its opening is stored: then every replica finds it. An Idempotency-Key leads a repeated request to the run
// of the first one: the request is replayed. A message to an agent can be steered: given to a run that goes on, its host. A run is
// restartable where its workflow says so: after a crash, or at a shutdown, it is started again, here or at the replica that adopts it.
//
// # Guarantees
//   - All requests with one key start one run.
//   - An id that a caller was told is found at every replica, and so is the end of a run that a reader was told.
//   - A number of an event means one event, for ever.
//   - Another principal's run is an unknown run, in every call, before anything of it is read.
//   - Nothing here knows HTTP: what went wrong is an [*Error] of a kind, or the cause of a context.
package run
