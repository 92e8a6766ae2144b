package faketelegram

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Entity is a marked part of a text. Offset and Length count UTF-16 code units.
type Entity struct {
	Type          string `json:"type"`
	Offset        int    `json:"offset"`
	Length        int    `json:"length"`
	URL           string `json:"url,omitempty"`
	User          *User  `json:"user,omitempty"`
	Language      string `json:"language,omitempty"`
	CustomEmojiID string `json:"custom_emoji_id,omitempty"`
}

// names are the types of entities as error texts call them.
var names = map[string]string{
	"bold": "Bold", "italic": "Italic", "underline": "Underline", "strikethrough": "Strikethrough", "spoiler": "Spoiler",
	"code": "Code", "pre": "Pre", "precode": "PreCode", "text_link": "TextUrl", "custom_emoji": "CustomEmoji", "blockquote": "BlockQuote",
}

// wrong is an error in the words of the platform, which begin with a capital letter.
func wrong(format string, args ...any) error { return words(fmt.Sprintf(format, args...)) }

type words string

func (w words) Error() string { return string(w) }

// text collects what is left of a text when its markup is taken away, and how long it is in UTF-16.
type text struct {
	out      strings.Builder
	units    int
	entities []Entity
}

func (t *text) add(s string) {
	t.out.WriteString(s)
	t.units += units(s)
}

// from is the text since an offset in bytes.
func (t *text) from(at int) string { return t.out.String()[at:] }

// open is an entity whose end has not come.
type open struct {
	kind     string
	name     string // the tag
	arg      string // address, language, class
	at       int    // in the source, in bytes
	offset   int    // in the text, in UTF-16
	bytes    int    // in the text
	expanded bool
}

// close adds the entity of o, if there is anything in it.
func (t *text) close(o open) {
	length := t.units - o.offset
	if length == 0 {
		return
	}
	e := Entity{Type: o.kind, Offset: o.offset, Length: length}
	switch o.kind {
	case "precode":
		e.Type, e.Language = "pre", o.arg
	case "text_link":
		link := o.arg
		if link == "" {
			link = t.from(o.bytes)
		}
		if user, ok := mentionedUser(link); ok {
			e.Type, e.User = "text_mention", &User{ID: user}
			break
		}
		if e.URL = address(link); e.URL == "" {
			return // what is no address is text without a link
		}
	case "custom_emoji":
		e.CustomEmojiID = o.arg
	case "blockquote":
		if o.expanded {
			e.Type = "expandable_blockquote"
		}
	}
	t.entities = append(t.entities, e)
}

// outer is the order of entities that cover the same.
var outer = []string{
	"blockquote", "expandable_blockquote", "pre", "code", "text_link", "text_mention", "bold", "italic", "underline", "strikethrough",
	"spoiler", "custom_emoji",
}

func (t *text) done() (string, []Entity) {
	slices.SortStableFunc(t.entities, func(a, b Entity) int {
		return cmp.Or(a.Offset-b.Offset, b.Length-a.Length, slices.Index(outer, a.Type)-slices.Index(outer, b.Type))
	})
	for i := range t.entities {
		if t.entities[i].Type == "code" {
			t.entities[i].Language = "" // which only fills what is around it
		}
	}
	return t.out.String(), t.entities
}

// mentionedUser reads tg://user?id=42.
func mentionedUser(link string) (int64, bool) {
	u, err := url.Parse(link)
	if err != nil || !strings.EqualFold(u.Scheme, "tg") || u.Host != "user" && u.Opaque != "user" {
		return 0, false
	}
	id, err := strconv.ParseInt(u.Query().Get("id"), 10, 64)
	return id, err == nil
}

// address is a link in the form that the platform gives it, "" for what it takes for none.
func address(link string) string {
	if !strings.Contains(link, "://") {
		if strings.HasPrefix(strings.ToLower(link), "tg:") {
			return link
		}
		link = "http://" + link
	}
	u, err := url.Parse(link)
	if err != nil || u.Host == "" {
		return ""
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https", "ton":
		if host := u.Hostname(); !strings.Contains(host, ".") && host != "localhost" {
			return ""
		}
	case "tg", "tonsite":
	default:
		return ""
	}
	if u.Path == "" {
		u.Path = "/"
	}
	return u.String()
}

// units is the length of s in UTF-16 code units.
func units(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r > 0xffff {
			n++
		}
	}
	return n
}

var tags = map[string]string{
	"b": "bold", "strong": "bold", "i": "italic", "em": "italic", "u": "underline", "ins": "underline",
	"s": "strikethrough", "strike": "strikethrough", "del": "strikethrough",
	"span": "spoiler", "tg-spoiler": "spoiler", "tg-emoji": "custom_emoji",
	"a": "text_link", "code": "code", "pre": "pre", "blockquote": "blockquote",
}

func space(c byte) bool {
	return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == 0 || c == '\v'
}

// parseHTML takes the parse mode HTML. Errors are in the words of the platform.
func parseHTML(src string) (string, []Entity, error) {
	var t text
	var stack []open
	for i := 0; i < len(src); {
		c := src[i]
		if c == '&' {
			if r, n := reference(src[i:]); n > 0 {
				if utf16.IsSurrogate(r) {
					return "", nil, wrong("Text contains invalid Unicode characters after decoding HTML entities, check for unmatched surrogate code units")
				}
				t.add(string(r))
				i += n
				continue
			}
		}
		if c != '<' {
			_, n := utf8.DecodeRuneInString(src[i:])
			t.add(src[i : i+n])
			i += n
			continue
		}
		begin := i
		i++
		if i < len(src) && src[i] == '/' {
			i++
			if len(stack) == 0 {
				return "", nil, wrong("Unexpected end tag at byte offset %d", begin)
			}
			at := i
			for i < len(src) && !space(src[i]) && src[i] != '>' {
				i++
			}
			name := strings.ToLower(src[at:i])
			for i < len(src) && space(src[i]) {
				i++
			}
			if i == len(src) || src[i] != '>' {
				return "", nil, wrong("Unclosed end tag at byte offset %d", begin)
			}
			i++
			top := stack[len(stack)-1]
			if name != "" && name != top.name {
				return "", nil, wrong("Unmatched end tag at byte offset %d, expected \"</%s>\", found \"</%s>\"", begin, top.name, name)
			}
			stack = stack[:len(stack)-1]
			t.end(top)
			continue
		}
		at := i
		for i < len(src) && !space(src[i]) && src[i] != '>' {
			i++
		}
		if i == len(src) {
			return "", nil, wrong("Unclosed start tag at byte offset %d", begin)
		}
		name := strings.ToLower(src[at:i])
		kind, ok := tags[name]
		if !ok {
			return "", nil, wrong("Unsupported start tag \"%s\" at byte offset %d", name, begin)
		}
		o := open{kind: kind, name: name, at: begin, offset: t.units, bytes: t.out.Len()}
		end, err := o.attributes(src, i)
		if err != nil {
			return "", nil, err
		}
		if name == "span" && o.arg != "tg-spoiler" {
			return "", nil, wrong("Tag \"span\" must have class \"tg-spoiler\" at byte offset %d", begin)
		}
		i = end
		stack = append(stack, o)
	}
	if len(stack) > 0 {
		return "", nil, wrong("Can't find end tag corresponding to start tag \"%s\"", stack[len(stack)-1].name)
	}
	out, entities := t.done()
	return out, entities, nil
}

// end closes a tag: a code with a language fills the pre around it, or is a plain code.
func (t *text) end(o open) {
	before := len(t.entities)
	switch o.kind {
	case "code", "pre":
		lang := o.arg
		o.arg = ""
		t.close(o)
		if len(t.entities) == before {
			return
		}
		e := &t.entities[before]
		e.Language = lang
		if before == 0 {
			return
		}
		inner := t.entities[before-1]
		if inner.Offset == e.Offset && inner.Length == e.Length && inner.Type != e.Type &&
			(inner.Type == "code" || inner.Type == "pre") && (inner.Language != "" || e.Language != "") {
			t.entities[before-1] = Entity{Type: "pre", Offset: e.Offset, Length: e.Length, Language: inner.Language + e.Language}
			t.entities = t.entities[:before]
		}
	default:
		t.close(o)
	}
}

// attributes reads those of a start tag from i on and returns where the tag ends.
func (o *open) attributes(src string, i int) (int, error) {
	for {
		for i < len(src) && space(src[i]) {
			i++
		}
		if i == len(src) {
			return 0, wrong("Unclosed start tag \"%s\" at byte offset %d", o.name, o.at)
		}
		if src[i] == '>' {
			return i + 1, nil
		}
		at := i
		for i < len(src) && !space(src[i]) && src[i] != '=' && src[i] != '>' {
			i++
		}
		name := strings.ToLower(src[at:i])
		if name == "" {
			return 0, wrong("Empty attribute name in the tag \"%s\" at byte offset %d", o.name, o.at)
		}
		for i < len(src) && space(src[i]) {
			i++
		}
		value := ""
		if i < len(src) && src[i] == '=' {
			i++
			for i < len(src) && space(src[i]) {
				i++
			}
			if i == len(src) {
				return 0, wrong("Unclosed start tag \"%s\" at byte offset %d", o.name, o.at)
			}
			if src[i] != '"' && src[i] != '\'' {
				at := i
				for i < len(src) && (src[i] >= '0' && src[i] <= '9' || src[i] >= 'a' && src[i] <= 'z' || src[i] >= 'A' && src[i] <= 'Z' ||
					src[i] == '.' || src[i] == '-') {
					i++
				}
				value = strings.ToLower(src[at:i])
				if i == len(src) || !space(src[i]) && src[i] != '>' {
					return 0, wrong("Unexpected end of name token at byte offset %d", at)
				}
			} else {
				quote := src[i]
				i++
				var b strings.Builder
				for i < len(src) && src[i] != quote {
					if src[i] == '&' {
						if r, n := reference(src[i:]); n > 0 {
							b.WriteRune(r)
							i += n
							continue
						}
					}
					b.WriteByte(src[i])
					i++
				}
				if i == len(src) {
					return 0, wrong("Unclosed start tag at byte offset %d", o.at)
				}
				i++
				value = b.String()
			}
		}
		switch {
		case o.name == "a" && name == "href", o.name == "span" && name == "class", o.name == "tg-emoji" && name == "emoji-id":
			o.arg = value
		case (o.name == "code" || o.name == "pre") && name == "class" && strings.HasPrefix(value, "language-"):
			o.arg = value[len("language-"):]
		case o.name == "blockquote" && name == "expandable":
			o.expanded = true
		}
	}
}

// reference reads a character reference at the start of s; n is 0 for what is none. The four names are all that there are.
func reference(s string) (r rune, n int) {
	end := 1
	if strings.HasPrefix(s, "&#") {
		base, digits := 10, "0123456789"
		end = 2
		if strings.HasPrefix(s[end:], "x") {
			base, digits, end = 16, "0123456789abcdefABCDEF", 3
		}
		at := end
		for end < len(s) && strings.IndexByte(digits, s[end]) >= 0 {
			end++
		}
		code, err := strconv.ParseUint(s[at:end], base, 32)
		if err != nil || code == 0 || code >= 0x10ffff || end-at >= 10 {
			return 0, 0
		}
		r = rune(code)
	} else {
		for end < len(s) && (s[end] >= 'a' && s[end] <= 'z' || s[end] >= 'A' && s[end] <= 'Z') {
			end++
		}
		switch s[1:end] {
		case "lt":
			r = '<'
		case "gt":
			r = '>'
		case "amp":
			r = '&'
		case "quot":
			r = '"'
		default:
			return 0, 0
		}
	}
	if end < len(s) && s[end] == ';' {
		end++
	}
	return r, end
}

const reserved = "_*[]()~`>#+-=|{}.!"

// parseMarkdown takes the parse mode MarkdownV2. Errors are in the words of the platform.
func parseMarkdown(src string) (string, []Entity, error) {
	var t text
	var stack []open
	quoted := -1      // where in the stack the block quote is
	lineStart := true // a quote may begin here
	lost := func(o open) error {
		return wrong("Can't find end of %s entity at byte offset %d", names[o.kind], o.at)
	}
	escape := func(c byte) error {
		return wrong("Character '%c' is reserved and must be escaped with the preceding '\\'", c)
	}
	endQuote := func() error {
		if top := stack[len(stack)-1]; top.kind == "spoiler" && len(stack)-1 > quoted && strings.Trim(t.from(top.bytes), "\r\n") == "" {
			stack = stack[:len(stack)-1] // || at the end of a quote makes it one that can be unfolded
			stack[quoted].expanded = true
		}
		if len(stack)-1 > quoted {
			return lost(stack[len(stack)-1])
		}
		t.close(stack[quoted])
		stack, quoted = stack[:quoted], -1
		return nil
	}
	for i := 0; i < len(src); {
		c := src[i]
		var top open
		if len(stack) > 0 {
			top = stack[len(stack)-1]
		}
		code := top.kind == "code" || top.kind == "pre" || top.kind == "precode"
		// The line after a quote ends it, unless it is quoted, too.
		if quoted >= 0 && lineStart && !code && c != '>' && i > 0 && src[i-1] == '\n' {
			if err := endQuote(); err != nil {
				return "", nil, err
			}
			continue
		}
		if c == '\\' && i+1 < len(src) && src[i+1] > 0 && src[i+1] < 127 {
			t.add(src[i+1 : i+2])
			lineStart = false
			i += 2
			continue
		}
		if strings.IndexByte(reserved, c) < 0 || code && c != '`' {
			_, n := utf8.DecodeRuneInString(src[i:])
			t.add(src[i : i+n])
			lineStart = !code && (c == '\n' || c == '\r')
			i += n
			continue
		}
		rest := src[i:]
		if n := ends(top.kind, rest); n > 0 {
			i += n
			switch top.kind {
			case "text_link", "custom_emoji":
				if i < len(src) && src[i] == '(' {
					arg, end := parenthesis(src, i+1)
					if end < 0 {
						what := "a URL"
						if top.kind == "custom_emoji" {
							what = "a custom emoji URL"
						}
						return "", nil, wrong("Can't find end of %s at byte offset %d", what, i+1)
					}
					top.arg = arg
					if top.arg == "" {
						top.arg = " " // an empty address is none
					}
					i = end
				}
				if top.kind == "custom_emoji" {
					u, err := url.Parse(top.arg)
					if err != nil || top.arg == "" {
						return "", nil, wrong("Custom emoji entity must contain a tg://emoji URL")
					}
					top.arg = u.Query().Get("id")
				}
			}
			stack = stack[:len(stack)-1]
			if t.units > top.offset {
				lineStart = false
			}
			t.close(top)
			continue
		}
		o := open{at: i, offset: t.units, bytes: t.out.Len()}
		switch {
		case c == '*':
			o.kind, i = "bold", i+1
		case strings.HasPrefix(rest, "__"):
			o.kind, i = "underline", i+2
		case c == '_':
			o.kind, i = "italic", i+1
		case c == '~':
			o.kind, i = "strikethrough", i+1
		case strings.HasPrefix(rest, "||"):
			o.kind, i = "spoiler", i+2
		case c == '[':
			o.kind, i = "text_link", i+1
		case strings.HasPrefix(rest, "!["):
			o.kind, i = "custom_emoji", i+2
		case strings.HasPrefix(rest, "```"):
			o.kind, i = "pre", i+3
			end := i
			for end < len(src) && !space(src[end]) && src[end] != '`' {
				end++
			}
			if end > i && end < len(src) && src[end] != '`' {
				o.kind, o.arg, i = "precode", src[i:end], end
			}
			if i < len(src) && (src[i] == '\n' || src[i] == '\r') {
				if i+1 < len(src) && (src[i+1] == '\n' || src[i+1] == '\r') && src[i] != src[i+1] {
					i++
				}
				i++
			}
		case c == '`':
			o.kind, i = "code", i+1
		case c == '>' && lineStart:
			i++
			lineStart = false
			if quoted >= 0 {
				if src[i-2] == '\n' {
					continue // the quote goes on
				}
				if err := endQuote(); err != nil {
					return "", nil, err
				}
			}
			o.kind = "blockquote"
			quoted = len(stack)
		default:
			return "", nil, escape(c)
		}
		stack = append(stack, o)
	}
	if quoted >= 0 {
		if err := endQuote(); err != nil {
			return "", nil, err
		}
	}
	if len(stack) > 0 {
		return "", nil, lost(stack[len(stack)-1])
	}
	out, entities := t.done()
	return out, entities, nil
}

// ends is how many bytes at the start of s end an entity.
func ends(kind, s string) int {
	mark := map[string]string{
		"bold": "*", "italic": "_", "underline": "__", "strikethrough": "~", "spoiler": "||",
		"code": "`", "pre": "```", "precode": "```", "text_link": "]", "custom_emoji": "]",
	}[kind]
	switch {
	case mark == "" || !strings.HasPrefix(s, mark), kind == "italic" && strings.HasPrefix(s, "__"):
		return 0
	}
	return len(mark)
}

// parenthesis reads an address up to its parenthesis and returns where it ends, -1 where it does not.
func parenthesis(src string, i int) (string, int) {
	var b strings.Builder
	for i < len(src) {
		switch {
		case src[i] == ')':
			return b.String(), i + 1
		case src[i] == '\\' && i+1 < len(src) && src[i+1] > 0 && src[i+1] < 127:
			i++
		}
		b.WriteByte(src[i])
		i++
	}
	return "", -1
}

// trim takes white space off both ends, as the platform does, and moves the entities.
func trim(s string, entities []Entity) (string, []Entity) {
	const white = " \t\r\n\v"
	s = strings.TrimRight(s, white)
	left := len(s) - len(strings.TrimLeft(s, white))
	s = s[left:]
	all := units(s)
	kept := entities[:0:0]
	for _, e := range entities {
		from, to := max(e.Offset-left, 0), min(e.Offset-left+e.Length, all) // white space is one unit a byte
		if e.Offset, e.Length = from, to-from; e.Length > 0 {
			kept = append(kept, e)
		}
	}
	return s, kept
}

// detect finds what the platform marks by itself in a text that somebody has typed: @names and /commands.
func detect(s string) []Entity {
	var found []Entity
	word := func(c byte) bool {
		return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	at := 0
	for i := 0; i < len(s); {
		c := s[i]
		if (c == '@' || c == '/') && (i == 0 || !word(s[i-1]) && s[i-1] < utf8.RuneSelf && s[i-1] != '/' && s[i-1] != '@') {
			end := i + 1
			for end < len(s) && word(s[end]) {
				end++
			}
			kind, least := "mention", 4
			if c == '/' {
				kind, least = "bot_command", 2
				if end > i+1 && end < len(s) && s[end] == '@' {
					name := end + 1
					for name < len(s) && word(s[name]) {
						name++
					}
					if name > end+3 {
						end = name
					}
				}
			}
			if end-i >= least && (end == len(s) || s[end] != '/') {
				found = append(found, Entity{Type: kind, Offset: at, Length: end - i})
				at += end - i
				i = end
				continue
			}
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		at += units(string(r))
		i += n
	}
	return found
}
