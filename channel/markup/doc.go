// Package markup turns a model's Markdown into the markup of a chat platform and cuts texts to the size of the platform's messages.
//
// # Guarantees
//   - No text is lost: the pieces of a text, joined, have all of its characters except white space at the cuts and, outside of code,
//     at the ends of lines. The head of a table is repeated in each piece of the table.
//   - Characters that a platform would read as markup are escaped. A model cannot write a message that the platform refuses, and only
//     what it writes as a link becomes one.
//   - Each piece is complete: bold text, quotes and code that go over a cut are closed before it and opened again after it.
//   - All functions are pure. Their time is bounded, also for hostile texts: a huge document is text without marks.
package markup
