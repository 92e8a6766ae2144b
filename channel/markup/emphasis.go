package markup

import (
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// emphasis parses * and _, as CommonMark does, and where that leaves marks which are meant: **Note:**text, and marks beside the punctuation of
// languages without spaces.
type emphasis struct{}

func (emphasis) Trigger() []byte               { return []byte{'*', '_'} }
func (emphasis) IsDelimiter(c byte) bool       { return c == '*' || c == '_' }
func (emphasis) OnMatch(consumed int) ast.Node { return ast.NewEmphasis(consumed) }

func (emphasis) CanOpenCloser(opener, closer *parser.Delimiter) bool {
	return opener.Char == closer.Char
}

func (e emphasis) Parse(_ ast.Node, block text.Reader, pc parser.Context) ast.Node {
	before := block.PrecendingCharacter()
	line, segment := block.PeekLine()
	d := parser.ScanDelimiter(line, before, 1, e)
	if d == nil {
		return nil
	}
	return push(d, line, before, segment, block, pc)
}

// strike parses ~~, and not ~, which stands between numbers.
type strike struct{}

func (strike) Trigger() []byte         { return []byte{'~'} }
func (strike) IsDelimiter(c byte) bool { return c == '~' }
func (strike) OnMatch(int) ast.Node    { return east.NewStrikethrough() }

func (strike) CanOpenCloser(opener, closer *parser.Delimiter) bool { return opener.Char == closer.Char }

func (s strike) Parse(_ ast.Node, block text.Reader, pc parser.Context) ast.Node {
	before := block.PrecendingCharacter()
	line, segment := block.PeekLine()
	d := parser.ScanDelimiter(line, before, 2, s)
	if d == nil || d.OriginalLength != 2 || before == '~' {
		return nil
	}
	return push(d, line, before, segment, block, pc)
}

func push(d *parser.Delimiter, line []byte, before rune, at text.Segment, block text.Reader, pc parser.Context) ast.Node {
	after := ' '
	if d.OriginalLength < len(line) {
		after, _ = utf8.DecodeRune(line[d.OriginalLength:])
	}
	if d.Char != '_' {
		d.CanClose = d.CanClose || closes(before, after, d.OriginalLength)
		d.CanOpen = d.CanOpen || opens(before, after)
	}
	d.Segment = at.WithStop(at.Start + d.OriginalLength)
	block.Advance(d.OriginalLength)
	pc.PushDelimiter(d)
	return d
}

// closes says whether a mark between punctuation and a word ends what is marked: behind the end of a sentence or a quote, for two marks at least,
// or anything but the beginning of a quote, where the word is of a language without spaces.
func closes(before, after rune, length int) bool {
	switch {
	case !util.IsPunctRune(before) || !inWord(after) || unicode.In(before, unicode.Ps, unicode.Pi):
		return false
	case unspaced(after) || unspaced(before):
		return true
	}
	return length >= 2 && (unicode.In(before, unicode.Pe, unicode.Pf) || before == '.' || before == ':' || before == ',' || before == ';' || before == '!' ||
		before == '?' || before == '%' || before == '"' || before == '\'' || before == '…')
}

// opens says whether a mark between a word of a language without spaces and punctuation begins what is marked.
func opens(before, after rune) bool {
	return inWord(before) && util.IsPunctRune(after) && !unicode.In(after, unicode.Pe, unicode.Pf) && (unspaced(before) || unspaced(after)) && !ends(after)
}

// ends says whether a character is what a sentence, or a part of one, ends with.
func ends(r rune) bool {
	switch r {
	case '.', ',', ':', ';', '!', '?', '。', '，', '：', '；', '！', '？', '、', '…', '．', '·':
		return true
	}
	return false
}

// unspaced says whether a character is of Chinese, Japanese or Korean, or of their punctuation.
func unspaced(r rune) bool {
	return 0x3000 <= r && r <= 0x303f || 0xff00 <= r && r <= 0xffef ||
		unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo)
}
