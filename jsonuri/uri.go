package jsonuri

// Format joins segments to a uri, with the escapes of [AppendSegment]. No segments give the root, "".
func Format(segments ...string) string { panic("jsonuri: not built yet") }

// Parse splits a uri into its segments: the inverse of [Format].
func Parse(uri string) ([]string, error) { panic("jsonuri: not built yet") }

// AppendSegment appends segment to the uri dst, with a "/" between where dst is not the root. Inside a segment "\" is
// written "\\" and "/" is written "\/"; a segment that is exactly "." or "..", or begins with "$", has a "\" put in
// front; an empty segment is written "\e".
func AppendSegment[T string | []byte](dst []byte, segment T) []byte { panic("jsonuri: not built yet") }

// Join puts root in front of uri; both are uris already, either may be the root.
func Join(root, uri string) string { panic("jsonuri: not built yet") }

// Reserved says whether a segment of uri begins with an unescaped "$": such a uri stands beside the document and a fold
// leaves it out.
func Reserved[T string | []byte](uri T) bool { panic("jsonuri: not built yet") }
