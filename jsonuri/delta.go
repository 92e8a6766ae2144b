package jsonuri

// Op says what a [Delta] does at its uri.
type Op uint8

const (
	// Append appends to the string at the uri; a missing or non-string value there first becomes "".
	Append Op = iota
	// Set sets the value at the uri. The value {} keeps an object that is already there.
	Set
)

// Delta is one change of a document. Its slices are valid only during the call that hands it out.
type Delta struct {
	URI []byte // plain (not JSON-escaped) uri text, root included
	Op  Op
	// Value is JSON text for Set. For Append it is the content of a JSON string in its escaped form, without quotes.
	Value []byte
}

// AppendJSON appends {"uri":…,"delta":…} to dst.
func (d Delta) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"uri":"`...)
	dst = AppendEscaped(dst, d.URI)
	dst = append(dst, `","delta":`...)
	if d.Op == Append {
		dst = append(dst, '"')
		dst = append(dst, d.Value...)
		dst = append(dst, '"')
	} else {
		dst = append(dst, d.Value...)
	}
	return append(dst, '}')
}
