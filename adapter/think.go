package adapter

import (
	"cmp"
	"strings"
)

// thinkTags are what models write around their thinking where their server does not take it out of the text.
var thinkTags = [...]struct{ begin, end string }{
	{"<think>", "</think>"},
	{"<thinking>", "</thinking>"},
	{"[THINK]", "[/THINK]"},
}

// thinking makes reasoning of the text between the tags at the start of an answer's text, and of the text before an end tag that has no
// beginning: there are servers whose prompt ends with the tag that begins the thoughts. White space around the tags is left out.
type thinking struct {
	state thinkState
	held  string // text that may be a tag, or from an end tag on
	end   string // the tag that ends the thinking

	known   bool   // the model's last answer began in the middle of thoughts, so this one is read as if it did
	guessed []byte // the thoughts of such an answer, which are its text if no tag ends them
	parted  bool   // the provider tells thoughts apart
	sent    bool   // some text was passed on
	last    byte   // of that text
}

type thinkState int

const (
	beforeText   thinkState = iota // no text has come that is more than white space
	inThought                      // the thinking has begun
	afterThought                   // it has ended, and no text has come
	inText                         // the text may still turn out to be thoughts
	onlyText                       // the rest is text
)

// maxSpace is how much white space is held back at the start of a text.
const maxSpace = 64

// split moves thinking from the text of a chunk to its reasoning. A chunk that ends the answer, or has a call, gets what was held back.
func (t *thinking) split(c *Chunk) {
	t.parted = t.parted || c.Reasoning != ""
	if t.state == onlyText || t.state == inText && t.held == "" && strings.IndexByte(c.Text, '<') < 0 {
		t.passed(c.Text)
		return
	}
	text, last := t.held+c.Text, c.Finish != "" || c.ToolCall != nil
	t.held, c.Text = "", ""
	if t.state == beforeText {
		text = t.begin(text, last)
	}
	if t.state == inThought {
		thought, rest, ended := strings.Cut(text, t.end)
		if text = rest; ended {
			t.state, t.guessed = afterThought, nil
		} else if !last {
			t.held = partOf(thought, t.end)
			thought = strings.TrimSuffix(thought, t.held)
		}
		c.Reasoning += thought
		if t.known && !ended {
			t.guessed = append(t.guessed, thought...)
			if last && c.Finish != FinishLength { // it was no thinking
				t.known, text, t.state = false, string(t.guessed), onlyText
			}
		}
	}
	if t.state == afterThought {
		if text = strings.TrimLeft(text, " \t\r\n"); text != "" {
			t.state = onlyText
		}
	}
	if t.state == inText {
		text = t.findEnd(c, text, last)
	}
	c.Text = text
	t.passed(text)
}

func (t *thinking) passed(text string) {
	if text != "" {
		t.sent, t.last = true, text[len(text)-1]
	}
}

// findEnd looks for an end tag without a beginning, and returns what is text.
func (t *thinking) findEnd(c *Chunk, text string, last bool) string {
	thought, answer, found := strings.Cut(text, endThink)
	if strings.Contains(thought, beginThink) { // the text is about tags
		t.state = onlyText
		return text
	}
	if !found {
		if !last {
			t.held = cmp.Or(partOf(text, endThink), partOf(text, beginThink))
		}
		return strings.TrimSuffix(text, t.held)
	}
	before := t.last
	if thought != "" {
		before = thought[len(thought)-1]
	}
	switch ends, sure := endsThoughts(before, answer, last); {
	case !sure:
		t.held = text[len(thought):]
		return thought
	case !ends, t.parted && (t.sent || strings.TrimSpace(thought) != ""):
		t.state = onlyText
		return text
	}
	c.Restart = t.sent
	c.Reasoning += thought
	t.known, t.state = true, afterThought
	if answer = strings.TrimLeft(answer, " \t\r\n"); answer != "" {
		t.state = onlyText
	}
	return answer
}

// The tags that are looked for in the middle of a text, and what a document may begin with behind them.
const (
	beginThink = "<think>"
	endThink   = "</think>"
	fence      = "```"
)

// endsThoughts reports whether an end tag ends thoughts. A tag inside a line, in quotes or as a word is part of a text about tags. before is the
// byte before the tag, 0 for none; answer is what has come behind it. sure is false if only more of the answer can tell; last says that there
// is no more.
func endsThoughts(before byte, answer string, last bool) (ends, sure bool) {
	if before == 0 || before == '\n' {
		return true, true
	}
	next := strings.TrimLeft(answer, " \t")
	switch {
	case next == "", len(next) < len(fence) && strings.HasPrefix(fence, next):
		return false, last || len(answer) > maxSpace
	case strings.IndexByte("\r\n{[", next[0]) >= 0, strings.HasPrefix(next, fence):
		return true, true
	case strings.IndexByte("`'\"(", before) >= 0, strings.IndexByte("`'\"\\).,:;!?", next[0]) >= 0:
		return false, true
	}
	return before != ' ' || len(next) == len(answer), true
}

// begin looks for a tag at the start of a text, and returns what comes behind it, or the text where there is none. last says that nothing more
// comes.
func (t *thinking) begin(text string, last bool) string {
	start := strings.TrimLeft(text, " \t\r\n")
	if len(text)-len(start) > maxSpace {
		return t.untagged(text)
	}
	for _, tag := range thinkTags {
		if rest, ok := strings.CutPrefix(start, tag.begin); ok {
			t.state, t.end, t.known = inThought, tag.end, false
			return rest
		}
		if !last && strings.HasPrefix(tag.begin, start) {
			t.held = text
			return ""
		}
	}
	return t.untagged(text)
}

// untagged begins a text that begins with no tag.
func (t *thinking) untagged(text string) string {
	t.state = inText
	if t.known && !t.parted {
		t.state, t.end = inThought, endThink
	}
	return text
}

// partOf returns the longest end of a text that a tag begins with.
func partOf(text, tag string) string {
	for n := min(len(text), len(tag)-1); n > 0; n-- {
		if end := text[len(text)-n:]; strings.HasPrefix(tag, end) {
			return end
		}
	}
	return ""
}
