// Package aisdk is the wire of the AI SDK's chats (useChat, AbstractChat) and objects (useObject): the UI message stream, version 1. Its
// handlers answer a chat's messages and give a page its chat back; its codec reads the requests, and writes a run's events as chunks of
// the stream, and a session's tape as messages.
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
