package cli

import (
	"strings"
	"unicode"
)

// maxLine bounds the line that is typed, in characters.
const maxLine = 256 << 10

// editor is the line that is being typed, which may have several rows. The zero value is ready.
type editor struct {
	text    []rune
	at      int // of the cursor
	history *history
	back    int    // how far back in the history; 0 is the line itself
	typed   string // the line itself, while the history is shown
}

func (e *editor) String() string { return string(e.text) }

func (e *editor) set(text string) {
	e.text = []rune(text)
	e.at = len(e.text)
}

// take returns the line and begins a new one.
func (e *editor) take() string {
	text := string(e.text)
	e.text, e.at, e.back, e.typed = nil, 0, 0, ""
	return text
}

// insert puts a text at the cursor. What is too long is cut.
func (e *editor) insert(text string) {
	add := []rune(text)
	add = add[:min(len(add), max(0, maxLine-len(e.text)))]
	rest := e.text[e.at:]
	e.text = append(append(append(make([]rune, 0, len(e.text)+len(add)), e.text[:e.at]...), add...), rest...)
	e.at += len(add)
}

// remove takes away what is between two places.
func (e *editor) remove(from, to int) {
	e.text = append(e.text[:from:from], e.text[to:]...)
	e.at = from
}

// press does what a key of the line does; false for other keys.
func (e *editor) press(k key) bool {
	switch k.name {
	case keyText, keyPaste:
		e.insert(k.text)
	case keyNewline:
		e.insert("\n")
	case keyBackspace:
		e.remove(e.left(e.at), e.at)
	case keyDelete, keyEOF:
		at := e.at
		e.remove(at, e.right(at))
	case keyLeft:
		e.at = e.left(e.at)
	case keyRight:
		e.at = e.right(e.at)
	case keyWordLeft:
		e.at = e.wordLeft()
	case keyWordRight:
		e.at = e.wordRight()
	case keyHome:
		e.at = e.rowStart(e.at)
	case keyEnd:
		e.at = e.rowEnd(e.at)
	case keyDeleteWord:
		e.remove(e.wordLeft(), e.at)
	case keyDeleteNextWord:
		at := e.at
		e.remove(at, e.wordRight())
	case keyDeleteToEnd:
		at := e.at
		e.remove(at, e.rowEnd(at))
	case keyDeleteToStart:
		e.remove(e.rowStart(e.at), e.at)
	case keyTranspose:
		if at := min(e.at, len(e.text)-1); at > 0 {
			e.text[at-1], e.text[at] = e.text[at], e.text[at-1]
			e.at = at + 1
		}
	case keyUp:
		if start := e.rowStart(e.at); start > 0 {
			above := e.rowStart(start - 1)
			e.at = min(above+e.at-start, start-1)
		} else {
			e.recall(e.back + 1)
		}
	case keyDown:
		if end := e.rowEnd(e.at); end < len(e.text) {
			e.at = min(end+1+e.at-e.rowStart(e.at), e.rowEnd(end+1))
		} else {
			e.recall(e.back - 1)
		}
	default:
		return false
	}
	return true
}

// recall shows a line of the history.
func (e *editor) recall(back int) {
	if back < 0 || e.history == nil {
		return
	}
	if back == 0 {
		if e.back > 0 {
			e.back = 0
			e.set(e.typed)
		}
		return
	}
	text, ok := e.history.at(back)
	if !ok {
		return
	}
	if e.back == 0 {
		e.typed = string(e.text)
	}
	e.back = back
	e.set(text)
}

// left is the place before the character that ends at a place: what joins a character goes with it.
func (e *editor) left(at int) int {
	for at > 0 {
		at--
		if !joins(e.text[at]) {
			break
		}
	}
	return at
}

func (e *editor) right(at int) int {
	if at < len(e.text) {
		at++
		for at < len(e.text) && joins(e.text[at]) {
			at++
		}
	}
	return at
}

// joins says whether a character has no place of its own.
func joins(r rune) bool { return r != '\n' && r != '\t' && columns(r) == 0 }

func isWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) || r == '_' || unicode.IsMark(r)
}

func (e *editor) wordLeft() int {
	at := e.at
	for at > 0 && !isWord(e.text[at-1]) {
		at--
	}
	for at > 0 && isWord(e.text[at-1]) {
		at--
	}
	return at
}

func (e *editor) wordRight() int {
	at := e.at
	for at < len(e.text) && !isWord(e.text[at]) {
		at++
	}
	for at < len(e.text) && isWord(e.text[at]) {
		at++
	}
	return at
}

func (e *editor) rowStart(at int) int {
	for at > 0 && e.text[at-1] != '\n' {
		at--
	}
	return at
}

func (e *editor) rowEnd(at int) int {
	for at < len(e.text) && e.text[at] != '\n' {
		at++
	}
	return at
}

// complete completes the name of a command. Where there are several, it goes as far as they agree, and returns them if that is
// nowhere.
func (e *editor) complete(names []string) (several []string) {
	before := string(e.text[:e.at])
	word, mark := before, ""
	switch {
	case strings.HasPrefix(before, ",help "):
		word, mark = strings.TrimLeft(before[len(",help "):], " "), ""
	case strings.HasPrefix(before, ","):
		word, mark = before[1:], ","
	case strings.HasPrefix(before, "，"):
		word, mark = before[len("，"):], "，"
	default:
		return nil
	}
	if strings.ContainsAny(word, " \n\t") {
		return nil
	}
	for _, name := range names {
		if strings.HasPrefix(name, strings.ToLower(word)) {
			several = append(several, name)
		}
	}
	if len(several) == 0 {
		return nil
	}
	same := several[0]
	for _, name := range several[1:] {
		for !strings.HasPrefix(name, same) {
			same = same[:len(same)-1]
		}
	}
	if len(several) == 1 && mark != "" && e.at == len(e.text) {
		same += " "
	}
	if len(same) > len(word) {
		e.insert(same[len(word):])
		return nil
	}
	if len(several) == 1 {
		return nil
	}
	return several
}
