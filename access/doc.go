// Package access says who asks, what they may, and how much of it. It knows no routes and answers no requests: each part is a check
// that returns a value or a [Refusal], and the HTTP door puts them in its way.
//
//   - [Keys] are API keys and [Tokens] are JWTs of an issuer: both lead to a [Principal]. [Tickets] replace them once, where
//     no header can be sent.
//   - [Limits] bound how much one caller may, [Proxies] say which address a caller has who has no name.
//   - [Hosts] and [CORS] say under which names, and to pages of which sites, the server answers at all.
//
// # Guarantees
//   - The zero [Principal] is unknown and has no rights.
//   - No error, log line or name holds a key, a token or a ticket, nor a part of one that would help to find it. A key's id may be
//     logged.
//   - Whether a secret is right is decided by comparing digests in constant time.
//   - Everything that callers can make grow is bounded.
package access
