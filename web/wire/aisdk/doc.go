// Package aisdk speaks the UI message stream, version 1, by which the AI SDK's chats (useChat, AbstractChat) talk to a server: it
// reads their requests, writes a run's events as chunks of that stream, and what a session remembers as their messages. It opens
// no connection and starts no run.
//
// # Guarantees
//   - A stream begins with "start", under the run's id, whichever event it begins with, and ends with [DONE]: behind the run's end,
//     or where the client must answer first.
//   - Only chunk types and members are written that version 5 of the SDK knows, unless the caller says that it has a later one: an
//     unknown type, or a null in place of a member that is left out, ends a stream in the client.
//   - A part is begun before it is continued, and ended before its step is; a tool's output follows its input. Anything else would
//     end the stream in the client, too.
//   - What a client folds the chunks to is the run's document, see [Encoder].
//   - The bytes written are linear in those of the events, however large the document grows.
package aisdk
