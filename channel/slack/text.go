package slack

import (
	"strings"
)

// words is a text of the platform, read.
type words struct {
	text    string // as someone would write it, without the mentions of the bot
	us      bool   // the bot is mentioned
	anybody bool   // someone is, or a group, or all
}

// unescape takes back what the platform escapes, which is these and nothing else.
var unescape = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")

// read reads a text: what is in angle brackets is a mention, a channel or a link, for brackets that someone has written are
// escaped. name is what people are called, "" for someone who is not known.
func read(text, me string, name func(id string) string) words {
	var w words
	var b strings.Builder
	b.Grow(len(text))
	for text != "" {
		open := strings.IndexByte(text, '<')
		end := -1
		if open >= 0 {
			end = strings.IndexByte(text[open:], '>')
		}
		if end < 0 {
			break
		}
		b.WriteString(unescape.Replace(text[:open]))
		inside := text[open+1 : open+end]
		text = text[open+end+1:]
		what, label, _ := strings.Cut(inside, "|")
		label = unescape.Replace(label)
		if me != "" && what == "@"+me {
			w.us, w.anybody = true, true
			if s := b.String(); s == "" || s[len(s)-1] == ' ' || s[len(s)-1] == '\n' {
				text = strings.TrimPrefix(text, " ")
			}
			continue
		}
		w.write(&b, what, label, name)
	}
	b.WriteString(unescape.Replace(text))
	w.text = strings.TrimSpace(b.String())
	if w.us { // "@ling: help" and "@ling, help" are for ling, and say help; ",help" is a command
		for _, mark := range []string{": ", ", "} {
			if rest, ok := strings.CutPrefix(w.text, mark); ok {
				w.text = strings.TrimSpace(rest)
			}
		}
	}
	return w
}

// write writes what is in brackets and is no mention of the bot.
func (w *words) write(b *strings.Builder, what, label string, name func(string) string) {
	rest := ""
	if what != "" {
		rest = unescape.Replace(what[1:])
	}
	switch {
	case strings.HasPrefix(what, "@"):
		w.anybody = true
		if label == "" && name != nil {
			label = name(rest)
		}
		if label == "" {
			label = rest
		}
		b.WriteString("@" + strings.TrimPrefix(label, "@"))
	case strings.HasPrefix(what, "#"):
		if label == "" {
			label = rest
		}
		b.WriteString("#" + label)
	case strings.HasPrefix(what, "!date^"):
		b.WriteString(label)
	case strings.HasPrefix(what, "!"):
		w.anybody = true
		if label == "" {
			label = strings.TrimPrefix(rest, "subteam^")
		}
		b.WriteString("@" + strings.TrimPrefix(label, "@"))
	default:
		address := unescape.Replace(what)
		plain := strings.TrimPrefix(address, "mailto:")
		_, short, _ := strings.Cut(address, "://")
		switch label {
		case "", address, plain, short, strings.TrimSuffix(short, "/"):
			b.WriteString(plain)
		default:
			b.WriteString(label + " (" + plain + ")")
		}
	}
}
