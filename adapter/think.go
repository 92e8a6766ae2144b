package adapter

import "strings"

// thinkTags are what models write around their thinking where their server does not take it out of the text.
var thinkTags = [...]struct{ begin, end string }{
	{"<think>", "</think>"},
	{"<thinking>", "</thinking>"},
	{"[THINK]", "[/THINK]"},
}

// thinking makes reasoning of what stands between the tags at the start of an answer's text. White space around the tags is left out.
type thinking struct {
	state thinkState
	held  string // text that may be the beginning of a tag
	end   string // the tag that ends the thinking
}

type thinkState int

const (
	beforeText   thinkState = iota // no text has come that is more than white space
	inThought                      // the thinking has begun
	afterThought                   // it has ended, and no text has come
	inText                         // the rest is text
)

// mostSpace is how much white space is held back at the start of a text.
const mostSpace = 64

// take moves what is thinking from the text of a chunk to its reasoning. A chunk that ends the answer, or has a call, gets what was held back.
func (t *thinking) take(c *Chunk) {
	if t.state == inText {
		return
	}
	text := t.held + c.Text
	t.held, c.Text = "", ""
	if t.state == beforeText {
		text = t.begin(text)
	}
	if t.state == inThought {
		thought, rest, ended := strings.Cut(text, t.end)
		if text = rest; ended {
			t.state = afterThought
		} else {
			t.held = partOf(thought, t.end)
			thought = strings.TrimSuffix(thought, t.held)
		}
		c.Reasoning += thought
	}
	if t.state == afterThought {
		if text = strings.TrimLeft(text, " \t\r\n"); text != "" {
			t.state = inText
		}
	}
	if t.state == inText {
		c.Text = text
	}
	if t.held == "" || c.Finish == "" && c.ToolCall == nil {
		return
	}
	if t.state == inThought {
		c.Reasoning += t.held
	} else {
		c.Text, t.state = t.held, inText
	}
	t.held = ""
}

// begin looks for a tag at the start of a text, and returns what comes behind it, or the text where there is none.
func (t *thinking) begin(text string) string {
	start := strings.TrimLeft(text, " \t\r\n")
	if len(text)-len(start) > mostSpace {
		t.state = inText
		return text
	}
	for _, tag := range thinkTags {
		if rest, ok := strings.CutPrefix(start, tag.begin); ok {
			t.state, t.end = inThought, tag.end
			return rest
		}
		if strings.HasPrefix(tag.begin, start) {
			t.held = text
			return ""
		}
	}
	t.state = inText
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
