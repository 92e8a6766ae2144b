// Package linear writes a document whose parts arrive in any order as one JSON text, from its first byte to its last, for those who
// can only read text that grows.
//
// # Guarantees
//   - What has been written is never taken back: each text is the beginning of the next one, and no key is written twice.
//   - The last text is JSON that decodes to the fold of all deltas, with numbers as they were written; a document that is a string is
//     written as that string itself.
//   - A [Writer] has a frontier: the value that is being written. What arrives there is written at once; what belongs behind it waits
//     until the value is complete.
//   - Time, and the length of the text, are linear in the deltas; memory is that of the document and of its text.
//
// # What is complete
//
// A value is complete when its Done has come behind its last change, or that of a value around it which the same bot has made. Where
// a bot writes into what another one has made, [Writer.Expect] says so. At the end of the run everything is complete.
//
// # What changes after it was written
//
// A change of what was written starts the text again from its beginning. It is compared with what was written and goes on
// behind that, so a snapshot, or a bot that writes the same once more, does no harm. Where it differs, the text cannot become
// the document any more: that is [ErrTakenBack].
package linear
