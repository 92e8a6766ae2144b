// Package jsonuri parses JSON while it is still being written, and puts the pieces together again.
//
// A [Parser] takes JSON text in chunks of any size and emits deltas: small changes, each addressed by a uri that says
// where in the document it belongs. A [Document] applies deltas and gives the value. A [Pattern] picks uris.
//
// # Words
//   - A uri is the segments of a path joined by "/", as "outline/0/topic"; the root is the empty uri. See [Parse].
//   - A delta appends to the string at its uri, or sets the value there. See [Delta].
//   - The fold of a list of deltas is the document that results from applying them in order.
//   - Content is what stands between the quotes of a JSON string, escapes included.
//   - A uri is reserved where one of its segments begins with a "$" that is not escaped, as "$tools/0". What it carries
//     stands beside the document, not in it. See [Reserved].
//   - To repair is to make a document of what models write instead of one: see [Options].
//
// # Repair
//
// Where a text can be read in two ways, repair prefers, in this order:
//   - what JSON says: a valid document is never changed (RP-10);
//   - the reading that loses no text: what cannot be placed stays as text where it was found (RP-11);
//   - the one that needs no more than the next sign of the structure (a quote, comma, colon or bracket), so that output is not held back;
//   - a quote inside a string is part of the text, unless what follows it can follow a value; once one quote inside is open, the next closes that;
//   - once signs of the structure were wrong, a key that its object has already begins the next element of a list, or gets a number: it overwrites
//     nothing (RP-11);
//   - a bracket that does not match and begins a line ends what began in a line of the same indentation; a key that is no further to the right than the
//     line in which its list began belongs to an object around that (RP-06);
//   - another bracket that does not match ends what the text behind it goes on without, and nothing where that is what fits (RP-06);
//   - a quote that is missing was at the end of the line, or else before the comma or bracket that a key or an element follows (RP-12, RP-13).
//
// No decision looks further ahead than 256 bytes, and none depends on where chunks end.
//
// # Guarantees
//   - For every JSON document and every way to cut its text into chunks, the fold of the parser's deltas is the value that a
//     standard decoder gives for the document.
//   - Chunking changes only where string deltas are cut.
//   - Time is linear in the input, memory is its depth and the keys of open objects; depth is bounded, and with it the stack.
//   - String content is passed through in its escaped form; a delta in the steady state allocates nothing.
//   - Every list of segments has one uri, and every uri one list of segments, so uris are compared as bytes.
//   - A document that refuses a delta is as it was before.
package jsonuri
