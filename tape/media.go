package tape

import "strings"

// blobScheme begins a text that stands for a blob.
const blobScheme = "tape-blob:"

// BlobURL returns a text that stands for the text of a blob, such as a large image in a content part: so large media are stored outside of the
// entries. The entry's meta names the blob (Spill), so that it is copied where the session is forked.
func BlobURL(handle string) string { return blobScheme + handle }

// BlobOf finds the [BlobURL] that a text ends with. It returns the text before it and the handle of the blob; ok is false if there is none.
func BlobOf(text string) (before, handle string, ok bool) { return strings.Cut(text, blobScheme) }
