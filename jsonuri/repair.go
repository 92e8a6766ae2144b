package jsonuri

import (
	"unicode/utf8"
)

// Repair reads what models write instead of JSON. It is a grammar of its own over the same emitter as the strict one: each
// step looks at the text from where it stands, as far as it needs to be certain, and takes back nothing. A step that would
// need bytes which are not here yet does nothing; the text from there on waits in pend. So every decision depends on the
// text alone, never on where chunks end.

// maxLook bounds how far a decision looks ahead, in bytes. What is undecided then is read as JSON would be.
const maxLook = 256

type repairState uint8

const (
	rpProse    repairState = iota // before the document
	rpScalar                      // the text so far is that of a string, number or literal alone
	rpValue                       // a value, or what stands for one
	rpKey                         // a key or the end of the object
	rpColon                       // the colon after a key
	rpAfter                       // a comma or the end of the container
	rpString                      // inside a string or key
	rpEmbedded                    // inside JSON or code in a string, whose quotes have no escapes
	rpBare                        // inside a string value without quotes
	rpBareKey                     // inside a key without quotes
	rpLine                        // inside a comment up to the end of the line
	rpBlock                       // inside a comment up to */
	rpLast                        // behind the bracket that ends the document, unless a member follows
	rpDone                        // behind the document
)

// The kinds of repair, as [Parser.Repairs] counts them.
const (
	fixProse       = "prose"             // text before the document
	fixTrailing    = "trailing_text"     // text behind it
	fixFence       = "fence"             // a code fence
	fixThink       = "think"             // a thinking tag
	fixQuotes      = "quotes"            // other quotes than "
	fixInner       = "unescaped_quote"   // a quote inside a string
	fixExtraQuote  = "extra_quote"       // a quote too many
	fixMissQuote   = "missing_quote"     // an opening or closing quote that is not there
	fixBareKey     = "unquoted_key"      //
	fixBare        = "unquoted_string"   //
	fixMissKey     = "missing_key"       //
	fixKeyJunk     = "text_after_key"    // between a key and its colon
	fixMissColon   = "missing_colon"     //
	fixColon       = "colon"             // another sign for it, or one too many
	fixMissValue   = "missing_value"     //
	fixMissComma   = "missing_comma"     //
	fixExtraComma  = "extra_comma"       //
	fixComma       = "comma"             // another sign for it
	fixComment     = "comment"           //
	fixDots        = "ellipsis"          //
	fixMissBracket = "missing_bracket"   //
	fixBracket     = "wrong_bracket"     // one that does not match
	fixMoreBracket = "extra_bracket"     //
	fixLiteral     = "literal"           // True, None, NaN
	fixNumber      = "number"            // +1, .5, 007, 1_000
	fixEscape      = "escape"            // an invalid escape
	fixControl     = "control_character" // a raw line break, tab or other control character in a string
	fixUTF8        = "invalid_utf8"      //
	fixJoin        = "joined_strings"    // "a" + "b"
	fixCall        = "function_call"     // ObjectId("…")
	fixSpace       = "white_space"       // white space that is not JSON's
	fixCut         = "cut_off"           // the text ended in the middle of a value
	fixEscapedDoc  = "escaped_document"  // {\"a\": 1}
	fixJunk        = "text_between"      // what belongs to nothing
)

type repairer struct {
	p     *Parser
	state repairState
	back  repairState // where a comment goes back to
	fixes map[string]int

	// The text that a step sees: b, and whether the input ends behind it. short is set when a step asked for more.
	b       []byte
	base    int64 // the offset of b in the input
	eof     bool
	short   bool
	pend    []byte
	keyFrom int64  // the offset of the key that is read
	token   []byte // a mended number
	mended  []byte // a piece of text on its way out
	hint    int    // bytes of pend that need not be looked at again by the step that waits

	// The open string.
	quote    quote
	inner    int   // quotes inside
	longRun  bool  // a run of commas, brackets and space was too long to wait for
	nesting  int   // brackets open in a bare string
	embedded int   // open brackets of what rpEmbedded reads
	plain    bool  // the open string is a value in JSON's own quotes
	given    int64 // the offset behind the content that steps gave out last
	last     byte  // of that
	keyKnown bool  // the colon inside the key is content
	wasText  bool  // the value before was a string in quotes
	fresh    bool  // the container has just begun
	comma    bool  // a comma was the last thing
	calls    int   // ObjectId( and the like whose ) is to come
	closed   byte  // the closing bracket that was the last thing
	maybeKey bool  // the open string is an element, but may be the key of an object without its brace: carry has it

	// Content on its way out: one delta for each uri and chunk.
	out    []byte
	owned  bool
	outBuf []byte
	prose  bool // it goes to the reasoning uri

	prosePath []byte
	lineStart bool
	inFence   bool // behind ``` on its line
	thinking  bool
	said      bool   // some prose was given out
	before    byte   // the last byte of it
	space     []byte // white space that is prose only if prose follows
	draft     []byte // what may be the document, inside a thinking tag that may never close
	drafting  bool

	scalar *Parser // checks a text that may be a single scalar
	fed    int     // bytes given to scalar; -1 when the text is known not to be one

	unescape bool // the document is escaped as a string's content is
	unit     []byte
	filtered []byte
}

func newRepairer(p *Parser) *repairer {
	return &repairer{p: p, prosePath: []byte(Join(string(p.uri), "$reasoning_context"))}
}

func (r *repairer) reset() {
	*r = repairer{
		p: r.p, prosePath: r.prosePath, scalar: r.scalar, lineStart: true,
		pend: r.pend[:0], token: r.token[:0], mended: r.mended[:0], outBuf: r.outBuf[:0], space: r.space[:0], draft: r.draft[:0], unit: r.unit[:0], filtered: r.filtered[:0],
	}
}

func (r *repairer) counts() map[string]int { return r.fixes }

func (r *repairer) fix(kind string) {
	if r.fixes == nil {
		r.fixes = make(map[string]int)
	}
	r.fixes[kind]++
}

func (r *repairer) write(chunk []byte) (int, error) {
	p := r.p
	n := len(chunk)
	// Nearly every token of a model is the plain middle of a string: it goes through as it is.
	if r.state == rpString && r.plain && len(r.pend) == 0 && p.offset+int64(n) <= p.maxBytes &&
		n > 0 && !r.longRun && (!inRun[chunk[n-1]] || chunk[n-1] == ' ' && (n == 1 || !inRun[chunk[n-2]])) && skipPlain(chunk, 0) == n {
		if r.maybeKey {
			r.note(chunk)
		}
		p.content(chunk)
		p.offset += int64(n)
		return n, nil
	}
	room := max(0, p.maxBytes-p.offset)
	over := int64(n) > room
	if over {
		chunk = chunk[:room]
	}
	r.feed(chunk)
	p.offset += int64(len(chunk))
	if over && p.err == nil && r.state != rpDone {
		p.err = &LimitError{Limit: "document", Max: p.maxBytes, Offset: p.offset}
	}
	if p.err != nil {
		return len(chunk), p.err
	}
	return n, nil // what stands behind the document is nobody's
}

// inRun marks what may stand between a string whose closing quote is missing and what comes next, and the brackets that code may begin with.
var inRun = [256]bool{',': true, '}': true, ']': true, ' ': true, '\t': true, '\n': true, '\r': true, '{': true, '[': true}

// feed reads a chunk together with what waits.
func (r *repairer) feed(chunk []byte) {
	if r.unescape {
		r.filtered = r.filterEscapes(r.filtered[:0], chunk)
		chunk = r.filtered
	}
	b := chunk
	r.base = r.p.offset - int64(len(r.pend))
	if len(r.pend) > 0 {
		r.pend = append(r.pend, chunk...)
		b = r.pend
	}
	r.pend = append(r.pend[:0], r.run(b, false)...)
}

// close ends the input and finishes the document.
func (r *repairer) close() error {
	p := r.p
	r.base = p.offset - int64(len(r.pend))
	r.run(r.pend, true)
	if p.err == nil && r.state == rpProse && r.drafting {
		// The thinking tag never closed: what looked like a document in it is one.
		r.prose = false
		r.state, r.thinking, r.drafting = rpValue, false, false
		r.run(r.draft, true)
	}
	if p.err != nil {
		return p.err
	}
	if r.state == rpProse {
		return ErrNoDocument
	}
	return nil
}

// run takes steps over b as far as they are certain and returns what is left.
func (r *repairer) run(b []byte, eof bool) []byte {
	r.b, r.eof = b, eof
	i := 0
	for ok := true; ok && r.p.err == nil && (i < len(r.b) || eof && r.state != rpDone); {
		r.short = false
		from := i
		if i, ok = r.step(i); i != from {
			r.hint = 0
		}
	}
	r.flush()
	return r.b[i:]
}

func (r *repairer) step(i int) (int, bool) {
	switch r.state {
	case rpString:
		return r.stepString(i)
	case rpKey:
		return r.stepKey(i)
	case rpColon:
		return r.stepColon(i)
	case rpValue:
		return r.stepValue(i)
	case rpAfter:
		return r.stepAfter(i)
	case rpBare:
		return r.stepBare(i)
	case rpBareKey:
		return r.stepBareKey(i)
	case rpLine, rpBlock:
		return r.stepComment(i)
	case rpProse:
		return r.stepProse(i)
	case rpScalar:
		return r.stepScalar(i)
	case rpLast:
		return r.stepLast(i)
	case rpEmbedded:
		return r.stepEmbedded(i)
	}
	return r.stepDone(i)
}

// at is the byte at i, 0 behind the end. It notes when the byte may still come.
func (r *repairer) at(i int) byte {
	if i < len(r.b) {
		return r.b[i]
	}
	if !r.eof {
		r.short = true
	}
	return 0
}

// Symbols beyond ASCII, as sym gives them.
const (
	symDouble byte = 0x80 + iota // a typographic double quote
	symSingle                    // a typographic single quote
	symDots                      // …
	symEntity                    // &quot;
	symEscape                    // \"
	symOther                     // anything else that is not ASCII
)

// symbols are what people and models write for the signs of JSON.
var symbols = map[rune]byte{
	'\u00a0': ' ', '\u200b': ' ', '\u200c': ' ', '\u200d': ' ', '\u200e': ' ', '\u200f': ' ', '\u2060': ' ', '\u3000': ' ', '\ufeff': ' ',
	'\u2002': ' ', '\u2003': ' ', '\u2007': ' ', '\u2009': ' ', '\u200a': ' ', '\u202f': ' ', '\u2028': '\n', '\u2029': '\n', '\u0085': '\n',
	'：': ':', '，': ',', '、': ',', '；': ';', '｛': '{', '｝': '}', '［': '[', '］': ']',
	'“': symDouble, '”': symDouble, '„': symDouble, '‟': symDouble, '＂': symDouble, '«': symDouble, '»': symDouble,
	'「': symDouble, '」': symDouble, '『': symDouble, '』': symDouble, '″': symDouble,
	'‘': symSingle, '’': symSingle, '‚': symSingle, '‛': symSingle, '＇': symSingle, '´': symSingle, '′': symSingle,
	'…': symDots,
}

// sym is the sign at i as ASCII, or one of the symbols above, and its length in bytes; 0 and 0 at the end.
func (r *repairer) sym(i int) (byte, int) {
	c := r.at(i)
	switch {
	case plainByte[c] && c != '&':
		return c, 1
	case c == 0:
		if i >= len(r.b) {
			return 0, 0
		}
		return ' ', 1
	case c == '&':
		if r.has(i, "&quot;") {
			return symEntity, 6
		}
	case c == '\\':
		if r.at(i+1) == '"' {
			return symEscape, 2
		}
	case c >= utf8.RuneSelf:
		if !r.eof && !utf8.FullRune(r.b[i:]) {
			r.short = true
			return symOther, 1
		}
		ch, n := utf8.DecodeRune(r.b[i:])
		if s, ok := symbols[ch]; ok {
			return s, n
		}
		return symOther, n
	}
	return c, 1
}

// has says whether word stands at i.
func (r *repairer) has(i int, word string) bool {
	for k := range len(word) {
		if r.at(i+k) != word[k] {
			return false
		}
	}
	return true
}

func isBlank(c byte) bool {
	return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' || c == '\v'
}

// skip passes white space from i on, but not more than a decision may look at, and says whether a line break was in it.
func (r *repairer) skip(i int) (next int, lineBreak bool) {
	for most := i + maxLook; i < most; {
		if i < len(r.b) && r.b[i] == ' ' {
			i++
			continue
		}
		c, n := r.sym(i)
		if !isBlank(c) {
			return i, lineBreak
		}
		lineBreak = lineBreak || c == '\n' || c == '\r'
		i += n
	}
	return i, lineBreak
}

// spaceAt takes the white space at i, if there is some.
func (r *repairer) spaceAt(i int) (n int) {
	c := r.b[i]
	if c == ' ' || c == '\n' || c == '\t' || c == '\r' {
		if c == '\n' {
			r.closed = 0
		}
		r.p.blank++
		return 1
	}
	if s, n := r.sym(i); isBlank(s) {
		if !r.short {
			r.p.blank++
			r.fix(fixSpace)
		}
		return n
	}
	return 0
}

// peek gives the next sign at i for a step of the structure, having passed white space; done says that the step is over.
func (r *repairer) peek(i int) (c byte, n, next int, done bool) {
	for i < len(r.b) {
		if c := r.b[i]; plainByte[c] && c != ' ' && c != '&' {
			r.p.blank = 0
			return c, 1, i, false
		}
		n := r.spaceAt(i)
		if r.short {
			return 0, 0, i, true
		}
		if n == 0 {
			break
		}
		i += n
	}
	if i == len(r.b) {
		return 0, 0, i, !r.eof
	}
	c, n = r.sym(i)
	if !r.short {
		r.p.blank = 0
	}
	return c, n, i, r.short
}

// inside says what the innermost container is: '{', '[' or 0.
func (r *repairer) inside() byte {
	if n := len(r.p.stack); n > 0 {
		return r.p.stack[n-1].kind
	}
	return 0
}

// enclosing is the index of the innermost open container of a kind, or -1.
func (r *repairer) enclosing(kind byte) int {
	for i := len(r.p.stack) - 1; i >= 0; i-- {
		if r.p.stack[i].kind == kind {
			return i
		}
	}
	return -1
}

// beginValue makes room for a value where an element of an array is due.
func (r *repairer) beginValue() {
	if r.inside() == '[' {
		r.p.element()
	}
	r.wasText, r.closed = false, 0
}

// ended says whether the bracket that ends the document has come, and nothing that may go on with it.
func (r *repairer) ended() bool { return r.state == rpDone || r.state == rpLast && len(r.pend) == 0 }

// goOn goes on behind a complete value.
func (r *repairer) goOn() {
	r.fresh, r.comma, r.closed = false, false, 0
	r.state = rpAfter
}

func (r *repairer) null(kind string) {
	r.fix(kind)
	r.p.scalar(nullText)
	r.goOn()
}

func (r *repairer) open(i int, kind byte) bool {
	p := r.p
	r.beginValue()
	if !p.open(kind) {
		p.err = &LimitError{Limit: "depth", Max: int64(p.depth), Offset: r.base + int64(i)}
		return false
	}
	r.fresh, r.comma = true, false
	r.state = rpKey
	if kind == '[' {
		r.state = rpValue
	}
	return true
}

// closeTo ends the containers from the innermost one to the one at index. The document itself goes on if a member follows.
func (r *repairer) closeTo(index int) {
	for len(r.p.stack) > max(index, 1) {
		r.p.close()
	}
	r.wasText = false
	r.goOn()
	if index == 0 {
		r.state = rpLast
	}
}

// finish ends the document at the end of the text, or where a fence says that there is no more of it.
func (r *repairer) finish(i int) (int, bool) {
	p := r.p
	for len(p.stack) > 0 {
		r.fix(fixMissBracket)
		p.close()
	}
	r.state = rpDone
	p.complete = false
	return i, true
}

// stepLast reads what stands behind the bracket that ends the document: one that came too early if the document goes on (RP-13).
func (r *repairer) stepLast(i int) (int, bool) {
	c, n, i, wait := r.peek(i)
	if wait {
		return i, false
	}
	kind := r.p.top().kind
	switch then := r.follows(i); {
	case r.short:
		return i, false
	case c == '}' || c == ']':
		r.fix(fixMoreBracket)
		return i + n, true
	case then == thenKey && kind == '{', then == thenValue && kind == '[' && r.elementFollows(i+n):
		r.fix(fixMoreBracket)
		r.state = rpAfter
		return i, true
	}
	r.p.close()
	r.p.complete = true
	r.state, r.comma = rpDone, false
	return i, true
}

// elementFollows says whether the value at i is one of a document, and not a word of the text around it.
func (r *repairer) elementFollows(i int) bool {
	j, _ := r.skip(i)
	c, m := r.sym(j)
	return c == '{' || c == '[' || r.isQuote(c) && r.elementAt(j, m, false) || r.plainElementAt(j, false) && c != ' '
}

// stepDone passes what stands behind the document.
func (r *repairer) stepDone(i int) (int, bool) {
	if !r.comma {
		c, _, next, done := r.peek(i)
		if done || c == 0 {
			return next, false
		}
		r.comma = true // once
		switch c {
		case '}', ']':
			r.fix(fixMoreBracket)
		case '`':
		default:
			r.fix(fixTrailing)
		}
	}
	return len(r.b), true
}

// lastLine says whether no line break follows.
func (r *repairer) lastLine(i int) bool {
	for k := i; k < i+maxLook; k++ {
		if c := r.at(k); c == '\n' || c == '\r' || r.short {
			return false
		} else if c == 0 && k >= len(r.b) {
			return true
		}
	}
	return false
}

// comment begins a comment at i if there is one, and says how long its sign is.
func (r *repairer) comment(i int, c byte) int {
	switch c {
	case '#':
		r.back, r.state = r.state, rpLine
	case '/':
		switch r.at(i + 1) {
		case '/':
			r.back, r.state = r.state, rpLine
		case '*':
			if r.short {
				return 0
			}
			r.fix(fixComment)
			r.back, r.state = r.state, rpBlock
			return 2
		default:
			return 0
		}
	default:
		return 0
	}
	r.fix(fixComment)
	return 1
}

func (r *repairer) stepComment(i int) (int, bool) {
	for ; i < len(r.b); i++ {
		switch {
		case r.state == rpLine && (r.b[i] == '\n' || r.b[i] == '\r'):
			r.state = r.back
			return i, true
		case r.state == rpLine && (r.b[i] == '}' || r.b[i] == ']'):
			// RP-11: a document on one line goes on behind a comment of its last member.
			last := r.lastLine(i)
			if r.short {
				return i, false
			}
			if last {
				r.state = r.back
				return i, true
			}
		case r.state == rpBlock && r.b[i] == '*':
			c := r.at(i + 1)
			if r.short {
				return i, false
			}
			if c == '/' {
				r.state = r.back
				return i + 2, true
			}
		}
	}
	if r.eof {
		r.state = r.back
	}
	return i, true
}
