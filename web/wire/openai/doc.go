// Package openai is the wire of OpenAI's clients: its handlers answer chat completions and list models. Its codec reads the requests,
// and writes answers, streams of chunks, and errors.
//
// # Guarantees
//   - Unknown members are ignored, because newer clients have newer ones. A member that asks for something that the server does not do
//     is refused by its name; docs/compatibility.md lists them all.
//   - A stream's text only grows, and is what a caller who does not stream gets; a document is written as [linear] writes it.
//   - Each stream ends with a finish reason and [DONE], or with an error: never without either, unless its connection breaks.
//   - Lines of a stream begin with "data: ", or are a comment or empty: nothing else, since clients stumble over ids, names of events
//     and retry times.
package openai
