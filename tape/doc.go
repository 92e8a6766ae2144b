// Package tape keeps a session's memory: an append-only list of facts from which a model's context is derived.
//
// Four words carry the package. A [Tape] is one session's facts in order of time. An [Entry] is one immutable fact. An
// anchor is an entry with a state from which context can be rebuilt: nothing before it is needed after it. A [View] is
// the list of chat messages that a model gets, derived anew each time and never stored.
//
// A [Store] holds tapes. That of package store/db stores them in an SQL database.
//
// # Guarantees
//   - No call changes, reorders or removes an entry; only [Tape.Delete] removes entries, all of them.
//   - Ids are given by the store, per tape, rising by one; order is the order of ids, also if the clock is set back.
//   - A batch is seen as a whole or not at all, by readers, by other processes and after a crash.
//   - A read sees the tape as it was when the read began, and its memory does not grow with the tape.
//   - A view is one that a provider accepts: each call has its result and each result its call.
package tape
