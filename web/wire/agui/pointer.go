package agui

// appendPointer appends a uri as a JSON Pointer (RFC 6901) in a JSON string, without quotes: "~" and "/" of keys are escaped, and
// what only uris escape is not. The uri is one that a document has taken.
func appendPointer(dst, uri []byte) []byte {
	if len(uri) == 0 {
		return dst
	}
	dst = append(dst, '/')
	for i := 0; i < len(uri); i++ {
		c := uri[i]
		if c == '/' {
			dst = append(dst, '/')
			continue
		}
		if c == '\\' {
			i++ // in a uri that is one, something stands behind it
			if c = uri[i]; c == 'e' {
				continue // an empty key
			}
		}
		switch {
		case c == '~':
			dst = append(dst, "~0"...)
		case c == '/':
			dst = append(dst, "~1"...)
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20 || c == 0x7f:
			const hex = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// refused returns how much of a uri leads to the value that has to be replaced as a whole, because clients refuse to touch what
// the uri names in it: JavaScript would take it for the prototype of an object. -1 where nothing is refused.
func refused(uri []byte) int {
	before, constructor := 0, false
	for start := 0; start <= len(uri); {
		end := start
		for end < len(uri) && uri[end] != '/' {
			if uri[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end, len(uri))
		switch segment := uri[start:end]; {
		case string(segment) == "__proto__", constructor && string(segment) == "prototype":
			return before
		default:
			constructor = string(segment) == "constructor"
		}
		before, start = end, end+1
	}
	return -1
}
