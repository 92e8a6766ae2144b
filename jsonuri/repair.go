package jsonuri

import "bytes"

// Repair is a second grammar over the emitter of the strict one, for what models write in place of JSON. Each step decides what
// comes next and then does it. To decide (decide…, and all of look) changes nothing: it looks at the text and the state and
// gives an act. To do it changes the state and calls the emitter. A decision that looked at bytes which have not come yet is
// dropped, in one place (step), and the text waits in pend. So decisions depend on the text alone, not on where chunks end.

type repairState uint8

const (
	rpStart  repairState = iota // before anything but white space
	rpScalar                    // the text so far is that of a string, number or literal alone
	rpValue                     // a value, or what stands for one
	rpKey                       // a key or the end of the object
	rpColon                     // the colon after a key
	rpAfter                     // a comma or the end of the container
	rpLast                      // behind the bracket that ends the document, unless a member follows
	rpDone                      // behind the document
	rpProse                     // before the document
	rpLine                      // inside a comment up to the end of the line
	rpBlock                     // inside a comment up to */
	rpString                    // inside a string or key
	rpBare                      // inside a string or key without quotes
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
	fixNumber      = "number"            // +1, .5, 1_000
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

// An act is what was decided: what to do, and with what.
type act struct {
	do    func(r *repairer, i int) int // does it with the sign at i, and says where to go on
	fix   string                       // the repair that is counted
	to    int                          // inside a text: what stands before is content
	n     int                          // the bytes that are done with, at i
	c     byte                         // a sign, or a kind of container
	quote byte                         // of a text; 0 where it has none
	index int                          // of a container in the stack
	state repairState
	value []byte

	calls, inner, nesting, stray int8 // how these change
}

type repairer struct {
	look
	p     *Parser
	a     act
	state repairState
	back  repairState // where a comment goes back to
	fixes map[string]int

	// Between values.
	fresh     bool // the container has just begun
	comma     bool // a comma was the last thing
	line      int  // white space, and one more, before the line whose first sign is to come; 0 inside a line
	lineFirst bool // the next sign is the first of its line
	indent    int  // white space before it
	closed    byte // the closing bracket that was the last thing, on this line
	calls     int  // ObjectId( and the like whose ) is to come
	seen      int  // bytes at the start of pend that are of one number or word

	// The open string.
	quote    byte  // 0 where it has none
	inner    int   // quotes inside
	longRun  bool  // it goes on behind a run of commas, brackets and space that was too long to wait for
	nesting  int   // brackets open in a bare string, or in JSON or code whose quotes have no escapes
	plain    bool  // it is a value in JSON's own quotes
	last     byte  // of its content
	keyFrom  int64 // the offset of the key
	keyKnown bool  // the colon inside the key is content
	maybeKey bool  // it is an element, but may be the key of an object without its brace: carry has it

	// Content on its way out: one delta for each uri and chunk.
	out    []byte
	mended []byte // a piece of text that was changed
	token  []byte // the text of a key without quotes

	prosePath []byte
	lineStart bool
	inFence   bool // behind ``` on its line
	thinking  bool
	said      bool   // some prose was given out
	before    byte   // the last byte of it
	space     []byte // white space that is prose only if prose follows
	draft     []byte // what may be the document, inside a thinking tag that may never close
	drafting  bool

	scalar   *Parser // checks a text that may be a single scalar
	fed      int     // bytes given to scalar
	unescape bool    // the document is escaped as a string's content is
	unit     []byte  // an escape of it that is not whole
	filtered []byte
}

func (r *repairer) fix(kind string) {
	if kind == "" {
		return
	}
	if r.fixes == nil {
		r.fixes = make(map[string]int)
	}
	r.fixes[kind]++
	switch kind { // signs of the structure are wrong
	case fixMissBracket, fixBracket, fixMoreBracket, fixMissQuote, fixExtraQuote, fixInner, fixMissComma, fixExtraComma,
		fixMissColon, fixColon, fixMissKey, fixMissValue, fixKeyJunk, fixJunk:
		r.p.uniqueKeys = true
	}
}

// mayPass says whether what is plain content in a chunk needs no decision.
func (r *repairer) mayPass(chunk []byte) bool {
	n := len(chunk)
	return r.state == rpString && r.plain && !r.longRun && r.nesting == 0 && (!inRun[chunk[n-1]] || chunk[n-1] == ' ' && (n == 1 || !inRun[chunk[n-2]]))
}

// inRun marks what may stand between a string whose closing quote is missing and what comes next, and the brackets that code may begin with.
var inRun = [256]bool{',': true, '}': true, ']': true, ' ': true, '\t': true, '\n': true, '\r': true, '{': true, '[': true}

// run takes steps over b as far as they are certain and returns what is left.
func (r *repairer) run(b []byte, eof bool) []byte {
	r.b, r.eof = b, eof
	i := 0
	for ok := true; ok && r.p.err == nil && (i < len(r.b) || eof && r.state != rpDone); {
		i, ok = r.step(i)
	}
	r.flush()
	return r.b[i:]
}

// step decides what stands at i and does it; false where that needs more of the input.
func (r *repairer) step(i int) (int, bool) {
	r.short = false
	if r.state == rpScalar { // all of the text waits
		return r.stepScalar(i)
	}
	if r.state <= rpDone {
		if r.state == rpDone && r.comma {
			return len(r.b), true
		}
		if i = r.passSpace(i); r.short || i == len(r.b) && !r.eof {
			return i, false
		}
	}
	if next := r.stepValid(i); next > i {
		r.lineFirst = false
		return next, true
	}
	r.decide(i)
	if r.state >= rpString {
		to := r.a.to
		if r.short {
			to = r.certain(i, to)
		}
		i = r.give(i, to)
	}
	if r.short || r.p.err != nil {
		return i, false
	}
	r.seen = 0
	r.fix(r.a.fix)
	next := r.a.do(r, i)
	r.lineFirst = r.lineFirst && next == i
	return next, true
}

// stepValid does what the signs of a valid document say that need no decision; it gives i where one is needed.
func (r *repairer) stepValid(i int) int {
	if i+1 >= len(r.b) {
		return i
	}
	switch c := r.b[i]; {
	case r.state == rpColon && c == ':':
		r.state = rpValue
	case r.state == rpAfter && c == ',':
		r.comma, r.fresh, r.closed, r.state = true, false, 0, rpKey
		if r.inside() == '[' {
			r.state = rpValue
		}
	case (r.state == rpValue || r.state == rpKey) && c == '"' && r.b[i+1] != '"' && !(r.state == rpValue && r.outdented()):
		if r.a = (act{quote: '"', n: 1}); r.state == rpKey {
			return r.openKey(i)
		}
		return r.openText(i)
	default:
		return i
	}
	return i + 1
}

// decideAtSign has what decides at a sign of the structure, by the state.
var decideAtSign = [...]func(*repairer, sign) act{
	rpStart: (*repairer).decideStart, rpKey: (*repairer).decideKey, rpColon: (*repairer).decideColon,
	rpValue: (*repairer).decideValue, rpAfter: (*repairer).decideAfter, rpLast: (*repairer).decideLast,
}

func (r *repairer) decide(i int) {
	switch {
	case r.state < rpDone:
		r.a = decideAtSign[r.state](r, r.next(i))
	case r.state == rpString:
		r.a = r.decideString(i)
	case r.state == rpBare && r.p.inKey:
		r.a = r.decideBareKey(i)
	case r.state == rpBare:
		r.a = r.decideBare(i)
	case r.state == rpProse:
		r.a = r.decideProse(i)
	case r.state == rpDone:
		r.a = r.decideDone(i)
	default:
		r.a = r.decideComment(i)
	}
}

// passSpace passes white space between the signs of the structure, of Unicode too (RP-16).
func (r *repairer) passSpace(i int) int {
	p := r.p
	if r.state == rpStart && p.base+int64(i) == 0 && r.has(i, "\ufeff") {
		i += 3
	}
	for i < len(r.b) && !r.short {
		c, n := r.b[i], 1
		if c != ' ' {
			if c, n = r.sym(i); r.short {
				break
			}
			if !isBlank(c) {
				if r.line > 0 {
					r.indent, r.line, r.lineFirst = p.blank-r.line, 0, true
				}
				p.blank = 0
				break
			}
			if c == '\n' {
				r.closed, r.line = 0, p.blank+1
			}
			if bytes.IndexByte([]byte("\t\r\n"), r.b[i]) < 0 {
				r.fix(fixSpace)
			}
		}
		p.blank++
		i += n
	}
	return i
}
