// Package openai reads requests for chat completions as OpenAI's clients send them, and writes what those clients read: answers,
// streams of chunks, and errors. It serves nothing by itself.
//
// # Guarantees
//   - Members that are not known are passed over, since newer clients have newer ones. What would be another answer than the one that
//     was asked for is refused by its name; docs/compatibility.md lists what becomes of each.
//   - A stream's text only grows, and is what a caller who does not stream gets; a document is written as [linear] writes it.
//   - Each stream ends with a finish reason and [DONE], or with an error: never without either, unless its connection breaks.
//   - Lines of a stream begin with "data: ", or are a comment or empty: nothing else, since clients stumble over ids, names of events
//     and retry times.
package openai
