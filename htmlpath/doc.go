// Package htmlpath parses HTML while it is still being written, and says where in the document each piece belongs.
//
// A [Parser] takes HTML in chunks of any size. It tells a [Handler] of each tag as soon as it is complete, and of text as it
// comes. Tags are read by the tokenizer of golang.org/x/net/html; this package finds out where they end, so that it never
// waits for more than the end of a tag and never reads anything twice.
//
// # Words
//   - A path is the names of the open elements with their numbers, as "body[1]/p[2]": the number counts from 1 among the
//     elements of the same name in the same parent, as in XPath. Text outside all elements has the path "".
//   - An implied end is an end tag that HTML lets authors leave out: that of an <li> before the next one.
//   - Foreign content is the inside of <svg> and <math>, where HTML has other rules.
//
// # Guarantees
//   - Chunking changes only where text is cut: the events, their order and the text between two tags are the same for every
//     way to cut the same input, and so are errors.
//   - Every element that is opened is closed, in the right order.
//   - Text is never cut inside a character or a character reference, and arrives decoded and as valid UTF-8.
//   - Time is linear in the input. Memory is the depth, the tag that is open and the names of elements.
//   - Text allocates nothing in the steady state.
//
// # What is an element
//
// No element is made up: where a browser adds html, head, body or tbody, the paths here have none.
//
//   - Void elements (br, img, input, …) are closed at once, and so are those of foreign content that end with "/>".
//     Elsewhere the slash says nothing: <div/> is open, as in browsers.
//   - <li>, <dt> and <dd>, <option>, <tr>, <td> and <th>, <tbody> and its like, <rt> and <rp> end the one before them in the
//     same list or table. <p> ends where a block begins: another <p>, a heading, a list, a table, a <div>. <head> ends where
//     <body> begins.
//   - An end tag closes its element and all that are open inside it. One that fits no open element is ignored, and so is one
//     that would reach out of a table cell, <template> or <object>.
//   - What is open at the end of the input is closed then.
//   - Comments, doctypes, CDATA sections and processing instructions have no events.
//   - <script>, <style>, <iframe>, <noscript>, <noembed>, <noframes> and <xmp> hold text as it stands;
//     <textarea> and <title> hold text in which references count. In foreign content none of them is special. The first end
//     tag ends a script, also one in a comment in the script.
//   - Names are in small letters, those of attributes too, also in SVG.
package htmlpath
