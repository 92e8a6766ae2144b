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
//   - An event is one line: no value, name or uri can put a line break into a frame.
//
// # Snapshots
//
// A reader that asks for what has left the log, or for a snapshot, gets a group of events in place of those that it
// missed: the named events among them, in order; the document as one Set at the root; a
// Set at each reserved uri; and the Done events. A string, and an object that is empty, is preceded by a Set to null,
// since those two forms add to what a reader has instead of replacing it.
//
// The group stands for all events up to its last one and takes effect as a whole: only its last event carries an id,
// that of the last event it stands for; the others are marked as a [Event.Part] and are framed without one. A client
// that is cut off in the middle therefore still has the id that it came with, or none, asks for the same as before and
// gets a whole new group; nothing is lost and nothing is appended twice.
//
// # Elsewhere
//
// What a tube has in its log can be written down piece by piece, see [Tube.Piece]. A [Replay] makes a tube of the pieces of one that is
// not there any more.
package tube
