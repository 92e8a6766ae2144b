package markup

import (
	"bytes"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown is the parser. It has no link definitions: they would not be visible.
var markdown = parser.NewParser(
	parser.WithBlockParsers(parser.DefaultBlockParsers()...),
	parser.WithInlineParsers(
		util.Prioritized(extension.NewTaskCheckBoxParser(), 0),
		util.Prioritized(parser.NewCodeSpanParser(), 100),
		util.Prioritized(parser.NewLinkParser(), 200),
		util.Prioritized(parser.NewAutoLinkParser(), 300),
		util.Prioritized(parser.NewRawHTMLParser(), 400),
		util.Prioritized(addressParser{}, 400),
		util.Prioritized(markParser{parser.NewEmphasisParser()}, 500),
		util.Prioritized(markParser{extension.NewStrikethroughParser()}, 500),
	),
	parser.WithParagraphTransformers(util.Prioritized(extension.NewTableParagraphTransformer(), 200)),
)

// markParser parses the marks * _ and ~~. Beyond CommonMark, a mark next to punctuation can begin or end what is marked: **Note:**text,
// and in languages without spaces. A single ~ is text: it stands between numbers.
type markParser struct{ parser.InlineParser }

func (p markParser) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	before := block.PrecendingCharacter()
	line, _ := block.PeekLine()
	if line[0] == '~' && !bytes.HasPrefix(line, []byte("~~")) {
		return nil
	}
	d, ok := p.InlineParser.Parse(parent, block, pc).(*parser.Delimiter)
	if !ok {
		return nil
	}
	after := ' '
	if d.OriginalLength < len(line) {
		after, _ = utf8.DecodeRune(line[d.OriginalLength:])
	}
	if d.Char != '_' {
		d.CanClose = d.CanClose || closes(before, after, d.OriginalLength)
		d.CanOpen = d.CanOpen || opens(before, after)
	}
	return d
}

// closes reports whether a mark between punctuation and a word ends what is marked: anywhere but after an opening bracket or quote in a
// language without spaces; else two marks after a closing bracket or quote, or after the end of a sentence.
func closes(before, after rune, length int) bool {
	if !util.IsPunctRune(before) || !inWord(after) || unicode.In(before, unicode.Ps, unicode.Pi) {
		return false
	}
	return unspaced(after) || unspaced(before) ||
		length >= 2 && (unicode.In(before, unicode.Pe, unicode.Pf) || strings.ContainsRune(`.:,;!?%"'…`, before))
}

// opens reports whether a mark between a word and punctuation begins what is marked, in a language without spaces.
func opens(before, after rune) bool {
	return inWord(before) && util.IsPunctRune(after) && !unicode.In(after, unicode.Pe, unicode.Pf) && (unspaced(before) || unspaced(after)) &&
		!strings.ContainsRune(".,:;!?。，：；！？、…．·", after)
}

// unspaced reports whether a character is Chinese, Japanese or Korean, or punctuation of these languages.
func unspaced(r rune) bool {
	return 0x3000 <= r && r <= 0x303f || 0xff00 <= r && r <= 0xffef ||
		unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo)
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// addressParser parses addresses in the text, from :// or the point of www. on, because marks in them are characters.
type addressParser struct{}

func (addressParser) Trigger() []byte { return []byte{':', '.'} }

func (addressParser) Parse(_ ast.Node, block text.Reader, _ parser.Context) ast.Node {
	line, segment := block.PeekLine()
	n := addressRest(util.BytesToReadOnlyString(block.Source()[:segment.Start]), util.BytesToReadOnlyString(line))
	if n == 0 {
		return nil
	}
	block.Advance(n)
	return ast.NewAutoLink(ast.AutoLinkURL, ast.NewTextSegment(segment.WithStop(segment.Start+n)))
}

// An address is ASCII, because in languages without spaces the text goes on behind it. Punctuation and marks at its end do not belong to it,
// except in names such as __init__, nor do brackets around it.
var (
	addressScheme = regexp.MustCompile(`(?i)(?:^|[^a-z0-9])(?:https?:|ftp:|www\.)$`)
	addressTail   = regexp.MustCompile(strings.NewReplacer("CHAR", `[\w!#-'*-/:;=?@~]`, "BRACKETS", `\([\w!#-'*-/:;=?@~]*\)`).Replace(
		`^(?:://|\.)(?:(?:CHAR|BRACKETS)*(?:[a-zA-Z0-9#-&+/=@-]|BRACKETS|/_CHAR*_))?`))
)

func init() { addressTail.Longest() }

// addressRest returns the length of the rest of an address that begins with its :// or the point of its www. It returns 0 if there is
// no address.
func addressRest(before, rest string) int {
	www := rest[0] == '.' && before != "" && before[len(before)-1]|0x20 == 'w'
	if !www && !strings.HasPrefix(rest, "://") || !addressScheme.MatchString(before[max(0, len(before)-7):]+rest[:1]) {
		return 0
	}
	return len(addressTail.FindString(rest))
}
