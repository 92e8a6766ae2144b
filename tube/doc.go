// Package tube carries the events of one run to any number of readers.
//
// A [Tube] is a log with readers. Events are encoded once and appended; each [Reader] is a cursor into the log. Attaching
// late, reconnecting and several windows on one run are the same thing: a cursor.
//
// # Guarantees
//   - Events have ids 0, 1, 2, … in order of production, without gaps in the log.
//   - Every reader sees the same events in the same order, from wherever it starts; what was filtered or quiet is left out.
//   - Sending never waits for a reader; a slow reader delays only itself.
//   - The log is bounded in bytes; a reader that falls out of it goes on from a snapshot of the document.
//   - Exactly one terminal event ends the log, "finished" or "canceled", and nothing follows it.
package tube
