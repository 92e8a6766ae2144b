package slack

import (
	"cmp"
	"regexp"
	"strings"
)

// words is a text of the platform, read.
type words struct {
	text    string // as someone would write it, without the mentions of the bot
	us      bool   // the bot is mentioned
	anybody bool   // someone is, or a group, or all
}

var (
	// unescape takes back what the platform escapes, which is these and nothing else.
	unescape = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")

	// reference is a mention, a channel or a link, with the words that stand for it. Brackets that someone has written are escaped.
	reference = regexp.MustCompile(`<([^>|]*)\|?([^>]*)>`)

	// callMark is between the mention of the bot and the rest of the text: "@ling: help" and "@ling, help" say help; ",help" is a command.
	callMark = regexp.MustCompile(`^(: |, )`)
)

// read reads a text for the bot me. name is what people are called, "" for someone who is not known.
func read(text, me string, name func(id string) string) words {
	var w words
	var b strings.Builder
	for {
		at := reference.FindStringSubmatchIndex(text)
		if at == nil {
			break
		}
		b.WriteString(unescape.Replace(text[:at[0]]))
		what, label := text[at[2]:at[3]], unescape.Replace(text[at[4]:at[5]])
		text = text[at[1]:]
		if me == "" || what != "@"+me {
			b.WriteString(w.reference(what, label, name))
			continue
		}
		w.us, w.anybody = true, true
		if before := b.String(); before == "" || strings.HasSuffix(before, " ") || strings.HasSuffix(before, "\n") {
			text = strings.TrimPrefix(text, " ")
		}
	}
	w.text = strings.TrimSpace(b.String() + unescape.Replace(text))
	if w.us {
		w.text = strings.TrimSpace(callMark.ReplaceAllString(w.text, ""))
	}
	return w
}

// reference returns what people read for what is in brackets.
func (w *words) reference(what, label string, name func(string) string) string {
	address := unescape.Replace(what)
	switch {
	case strings.HasPrefix(what, "@"):
		w.anybody = true
		return "@" + strings.TrimPrefix(cmp.Or(label, name(address[1:]), address[1:]), "@")
	case strings.HasPrefix(what, "#"):
		return "#" + cmp.Or(label, address[1:])
	case strings.HasPrefix(what, "!date^"):
		return label
	case strings.HasPrefix(what, "!"):
		w.anybody = true
		return "@" + strings.TrimPrefix(cmp.Or(label, strings.TrimPrefix(address[1:], "subteam^")), "@")
	}
	plain := strings.TrimPrefix(address, "mailto:")
	_, short, _ := strings.Cut(address, "://")
	switch label {
	case "", address, plain, short, strings.TrimSuffix(short, "/"):
		return plain
	}
	return label + " (" + plain + ")"
}
