package gemini

import (
	"bytes"
	"encoding/json"
)

// template is the last event that had one text and nothing else but counts. Most events of an answer differ from the one before only in the
// text and in the digits behind it. Of such an event only the text is decoded; its counts are read when they are needed.
type template struct {
	kind   int    // text or thought
	before []byte // up to the text
	after  []byte // from the text's closing quote on
}

var (
	textKey  = []byte(`"text"`)
	usageKey = []byte(`"usageMetadata"`)
	indexKey = []byte(`"index"`)
)

// text returns the inside of an event's text where the event is like the template. The event is the template then.
func (t *template) text(data []byte) ([]byte, bool) {
	if len(t.before) == 0 || !bytes.HasPrefix(data, t.before) {
		return nil, false
	}
	rest := data[len(t.before):]
	end := closing(rest)
	if end < 0 {
		return nil, false
	}
	after := rest[end:]
	if !alike(after, t.after) {
		return nil, false
	}
	if at := bytes.Index(after, indexKey); at >= 0 { // of another candidate
		if n := bytes.TrimLeft(after[at+len(indexKey):], " :"); n[0] != '0' || isDigit(n[1]) {
			return nil, false
		}
	}
	t.after = append(t.after[:0], after...)
	return rest[:end], true
}

// learn makes an event the template that has one text and nothing else but counts, and returns the inside of the text.
func (t *template) learn(data []byte) ([]byte, bool) {
	if bytes.Count(data, textKey) != 1 {
		return nil, false
	}
	// Quotes in strings are escaped: this is a member, or a string that no colon follows.
	start := bytes.Index(data, textKey) + len(textKey)
	start += len(data[start:]) - len(bytes.TrimLeft(data[start:], " :"))
	if start >= len(data) || data[start] != '"' {
		return nil, false
	}
	start++
	end := closing(data[start:])
	if end < 0 {
		return nil, false
	}
	end += start
	var e event
	if json.Unmarshal(append(bytes.Clone(data[:start]), data[end:]...), &e) != nil || len(e.Candidates) != 1 || e.Error != nil || e.Prompt.BlockReason != "" {
		return nil, false
	}
	c := &e.Candidates[0]
	if c.Index != 0 || c.FinishReason != "" || c.Grounding != nil || c.Citations.Sources != nil || c.Citations.Older != nil || len(c.Content.Parts) != 1 {
		return nil, false
	}
	part := c.Content.Parts[0]
	t.kind = text
	if thinks, ok := part["thought"]; ok {
		if delete(part, "thought"); string(thinks) == "true" {
			t.kind = thought
		}
	}
	if len(part) != 1 || string(part["text"]) != `""` {
		t.before = t.before[:0]
		return nil, false
	}
	t.before, t.after = append(t.before[:0], data[:start]...), append(t.after[:0], data[end:]...)
	return data[start:end], true
}

// counts returns the counts that the template has.
func (t *template) counts() json.RawMessage {
	at := bytes.Index(t.after, usageKey)
	if at < 0 {
		return nil
	}
	rest := bytes.TrimLeft(t.after[at+len(usageKey):], " :")
	var raw json.RawMessage
	json.NewDecoder(bytes.NewReader(rest)).Decode(&raw) // nil is no counts
	return raw
}

// closing returns where the quote is that ends a string; -1 where it does not end.
func closing(b []byte) int {
	for from := 0; ; {
		at := bytes.IndexByte(b[from:], '"')
		if at < 0 {
			return -1
		}
		at += from
		slashes := 0
		for at-slashes > 0 && b[at-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return at
		}
		from = at + 1
	}
}

// alike reports whether two texts are the same but for digits.
func alike(a, b []byte) bool {
	i, j := 0, 0
	for {
		for i < len(a) && j < len(b) && a[i] == b[j] {
			i, j = i+1, j+1
		}
		if i == len(a) && j == len(b) {
			return true
		}
		ours, theirs := digits(a[i:]), digits(b[j:])
		if !(i > 0 && isDigit(a[i-1])) && (ours == 0 || theirs == 0) || ours+theirs == 0 {
			return false
		}
		i, j = i+ours, j+theirs
	}
}

func digits(b []byte) (n int) {
	for n < len(b) && isDigit(b[n]) {
		n++
	}
	return n
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
