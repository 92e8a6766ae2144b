package flow

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/jsonuri"
)

// What is known of a uri, by a trigger's pattern or by a root that a template will give, are its segments as a pattern has them.
const (
	one  = "*"  // exactly one segment, whichever
	many = "**" // any number of segments, none included
)

func isStar(segment string) bool { return segment == one || segment == many }

// starsOf lists the stars among segments.
func starsOf(segments []string) []string {
	return slices.DeleteFunc(slices.Clone(segments), func(s string) bool { return !isStar(s) })
}

// leadingSlash is what is wrong with a uri or pattern that begins with a slash: it would begin with a member whose name is empty.
const leadingSlash = "a uri does not begin with a slash"

// compilePattern reads a uri pattern. A star inside of a name would only match a star, which is surely a mistake.
func compilePattern(text string) (*jsonuri.Pattern, error) {
	if strings.HasPrefix(text, "/") {
		return nil, errors.New(leadingSlash)
	}
	p, err := jsonuri.CompilePattern(text)
	if err != nil {
		return nil, err
	}
	for _, s := range splitURI(text) {
		if strings.Contains(s, "*") && !isStar(strings.TrimPrefix(s, `\`)) {
			return nil, fmt.Errorf(`the star in %q has no meaning; "*" matches one whole segment, and "**" any number of segments`, text)
		}
	}
	return p, nil
}

// uriSegment is a segment of a uri. A backslash escapes what is behind it.
var uriSegment = regexp.MustCompile(`(?s)(?:[^/\\]|\\.?)*`)

// splitURI splits a uri at its slashes and leaves the escapes as they are.
func splitURI(uri string) []string {
	if uri == "" {
		return nil
	}
	return uriSegment.FindAllString(uri, -1)
}

var (
	templateComment = regexp.MustCompile(`\{#.*?#\}`)
	templateHole    = regexp.MustCompile(`\{\{.*?\}\}`)
)

// rootSegments says what can be known of a root before its template is rendered. stars are those of the trigger's pattern:
// what a star matched is as many segments as the star allows. A name that is itself a star counts as one.
func rootSegments(text string, stars []string) []string {
	if strings.Contains(text, "{%") {
		return []string{many}
	}
	// Each {{ … }} becomes one of two bytes that no text has, so that the slashes inside do not count.
	const oneHole, anyHole = "\xfe", "\xff"
	text = templateHole.ReplaceAllStringFunc(templateComment.ReplaceAllString(text, ""), func(hole string) string {
		expression := strings.TrimSpace(hole[2 : len(hole)-2])
		for i, s := range stars {
			if s == one && expression == "event.match."+strconv.Itoa(i) {
				return oneHole
			}
		}
		return anyHole
	})
	segments := splitURI(text)
	for i, s := range segments {
		switch {
		case strings.Contains(s, anyHole):
			segments[i] = many
		case strings.Contains(s, oneHole):
			segments[i] = one
		}
	}
	return segments
}

// meet says whether some uri fits both a and b. Its time is len(a)·len(b).
func meet(a, b []string) bool {
	// can[j] says whether a[i:] and b[j:] meet, for the i that is being worked on; i goes down.
	can := make([]bool, len(b)+1)
	for i := len(a); i >= 0; i-- {
		diagonal := false // can[i+1][j+1]
		for j := len(b); j >= 0; j-- {
			below := can[j] // can[i+1][j]
			var now bool
			switch {
			case i == len(a) && j == len(b):
				now = true
			case i == len(a):
				now = b[j] == many && can[j+1]
			case j == len(b):
				now = a[i] == many && below
			case a[i] == many || b[j] == many:
				// It stands for nothing, or takes one segment of the other.
				now = below || can[j+1]
			case a[i] == one || b[j] == one:
				now = diagonal
			default:
				now = a[i] == b[j] && diagonal
			}
			diagonal, can[j] = below, now
		}
	}
	return can[0]
}

// static returns the text of segments that have no star.
func static(segments []string) (string, bool) {
	return strings.Join(segments, "/"), !slices.ContainsFunc(segments, isStar)
}
