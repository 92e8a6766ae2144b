// Package markup is what two channels need of the texts that they send: it cuts them to what a platform takes in one message, and
// turns a model's Markdown into the markup of a platform.
//
// # Guarantees
//   - No text is lost: the pieces of a text, one behind the other, have all of its characters but the white space at which it was
//     cut and, outside of code, at the ends of lines.
//   - What a platform could take for markup and is none is escaped, so nothing that a model writes makes a platform refuse a
//     message, and nothing becomes a link that was not written as one.
//   - Every piece is whole by itself: what is bold, quoted or code when a piece ends is closed there and opened again in the next.
//   - All of it is pure, and takes time that is linear in the text, however hostile: long documents are parsed in parts of some
//     kilobytes, because the Markdown parser's time is not.
package markup
