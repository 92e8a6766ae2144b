package jsonuri

// Document is the fold of deltas. The zero value is an empty document, {}. It is not safe for concurrent use.
// Values with a reserved uri are kept beside the document, see [Document.AppendReserved].
type Document struct{}

// Append appends content, in its escaped form and without quotes, to the string at uri; a missing or non-string value
// there first becomes "". It keeps no reference to its arguments. Errors: a uri that cannot be parsed, a limit (depth, index
// of an array).
func (d *Document) Append(uri, content []byte) error { panic("jsonuri: not built yet") }

// Set sets the value at uri to the JSON text value; {} keeps an object that is there. A slot beyond an array's end fills it
// with null. Errors are those of Append, and a value that is not JSON.
func (d *Document) Set(uri, value []byte) error { panic("jsonuri: not built yet") }

// Get returns the JSON text of the value at uri; false where there is none.
func (d *Document) Get(uri string) ([]byte, bool) { panic("jsonuri: not built yet") }

// Delete removes the value at uri; an array's later elements move up.
func (d *Document) Delete(uri string) bool { panic("jsonuri: not built yet") }

// Walk calls visit for each value in document order, containers before what they hold, until it returns false.
func (d *Document) Walk(visit func(uri string, value []byte) bool) { panic("jsonuri: not built yet") }

// AppendJSON appends the document's JSON text to dst: members in the order they first came, numbers as they were written.
func (d *Document) AppendJSON(dst []byte) []byte { panic("jsonuri: not built yet") }

// AppendReserved appends the reserved part as one JSON object, {uri: value}, uris up to and with the "$" segment;
// {} when there is none.
func (d *Document) AppendReserved(dst []byte) []byte { panic("jsonuri: not built yet") }

// Size returns the bytes of memory that the document's text takes, about.
func (d *Document) Size() int { panic("jsonuri: not built yet") }

// Clone returns an independent copy.
func (d *Document) Clone() *Document { panic("jsonuri: not built yet") }
