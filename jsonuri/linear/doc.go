// Package linear writes a document whose parts arrive in any order as one JSON text, from its first byte to its last, for those who
// can only read text that grows.
//
// # Guarantees
//   - What has been written is never taken back: each text is the beginning of the next one.
//   - The last text is JSON that decodes to the fold of all deltas, with numbers as they were written; a document that is a string is
//     written as that string itself.
//   - A byte is written as soon as it is settled. Each place of a text is behind the one before it, so a [Writer] has a frontier: the
//     value that is being written. What arrives there is written at once, what belongs behind it waits until the value is complete.
//   - Time, and the length of the text, are linear in the deltas; memory is that of the document.
//
// # What is complete
//
// A value is complete when its Done has come behind its last change, or that of a value around it which the same bot has made. Where
// a bot writes into what another one has made, [Writer.Expect] says so. At the end of the run everything is complete.
//
// # What changes after it was written
//
// Of a key that an object has twice, JSON's readers take the last value. So a value that is another one now is written once more
// under its key, in the nearest object around it that is still open; at once as long as that is no more than what has arrived, or
// else when the object ends. What is never seen again in the root cannot be taken out of it: that is [ErrTakenBack].
package linear
