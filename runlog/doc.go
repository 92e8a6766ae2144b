// Package runlog says what a log of runs is: it keeps the events of runs as they go, for those who come back after a crash, or to another
// replica. What a server wants to know of a run beside its events, its opening and its head, are bytes to a log.
//
// # Guarantees
//   - Who sends to a tube waits for nothing: a log looks at the tube by itself.
//   - The events of a run are kept in their order, each once. What is known of a run after a crash is a beginning of what it sent.
//   - A head is kept behind all events. A run that has a head has ended.
//   - When a log cannot keep runs they go on, and are kept again when it can: all of each, as far as its tube has it.
//
// Package runlogtest is every log's test.
package runlog
