// Package run has the runs of a server: it starts them, finds them, lets callers follow, cancel and answer them, and drains.
//
// A run that was started belongs to the service and not to the request that started it: a client that goes away leaves it running, and
// comes back with the number of the last event that it has seen. Runs end by themselves, by being canceled, by their timeout, or with the
// server.
//
// A start is one transaction of the store: the run and its Idempotency-Key. Its events are shown at once and stored a moment later, those of all
// runs together; its end is stored before it is shown. What a server leaves when it ends, another one takes over, or the next one at its start.
//
// # Words
//
// A request is what a caller wants started. An Idempotency-Key leads a repeated request to the run of the first one: the request is replayed. A
// message to an agent can be steered: given to a run that goes on, its host. A run can be restarted where its workflow says so: after a crash,
// or at a shutdown, it is started again as its next attempt, here or at another replica. What another replica has is an [Elsewhere].
//
// # Guarantees
//   - All requests with one key start one run.
//   - An id that a caller was told is found at every replica. An end that a reader was told stays the end.
//   - A number of an event means one event, for ever.
//   - Another principal's run is an unknown run, in every call, before anything of it is read.
//   - Nothing here knows HTTP: what went wrong is an [*Error] of a kind, or the cause of a context.
package run
