package tape

import "strings"

// A Folder brings text into the form in which searches compare it, for stores that keep an index of it: where an entry is selected by
// [Query.Text], each of the query's Words is a part of the entry's Text. The reverse need not be so; [Select] looks at the entry itself.
// The zero value is ready; it is not safe for concurrent use.
type Folder struct{ m *matcher }

func (f *Folder) matcher() *matcher {
	if f.m == nil {
		f.m = newMatcher(Query{Text: " "})
	}
	return f.m
}

// Text is what searches cover of an entry. Words have no white space, so none goes beyond a line or a space in it.
func (f *Folder) Text(e Entry) string {
	text := textOf(e)
	if text == "" {
		return ""
	}
	return f.matcher().folded(text)
}

// Words are those that the text of a query has; without any, it selects whatever the text of an entry is.
func (f *Folder) Words(text string) []string { return strings.Fields(f.matcher().folded(text)) }

// BeginsStep says whether an entry begins a step of a conversation. A search looks at each entry by itself, but for results of tools:
// whether one is that of an earlier search, which is not searched again, its call says. So a store that leaves out what cannot be
// selected leaves out whole steps.
func BeginsStep(e Entry) bool { return e.Kind == KindToolCall || e.Kind == KindMessage }
