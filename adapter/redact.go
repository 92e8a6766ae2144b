package adapter

import (
	"errors"
	"regexp"
	"strings"

	"github.com/lingserve/lingserve/internal/wording"
)

// maxCause is how much of a provider's own words is kept for the log, in bytes.
const maxCause = 2 << 10

// secrets are the shapes that keys have in what providers and proxies echo.
var secrets = []struct {
	shape *regexp.Regexp
	with  string
}{
	{regexp.MustCompile(`(?i)\b(bearer|basic)[ :=]+[^\s"',;<>]+`), "$1 ***"},
	{regexp.MustCompile(`(?i)\b((?:x-|proxy-)?(?:api[-_]?key|subscription[-_]key|authorization|access[-_]?token|secret)"?\s*[:=]\s*"?)[^\s"',;&<>]+`), "$1***"},
	{regexp.MustCompile(`\b(sk|pk|pat|rk|lsk|lst)[-_][A-Za-z0-9_*.-]{6,}`), "$1-***"}, // of providers, and this server's own: keys and tickets
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_.-]+`), "***"},            // the start of JSON in base64: a signed token
	{regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s"'@]+@`), "$1***@"},         // a name and password in an address
	{regexp.MustCompile(`([?&](?:key|api[-_]?key|token|sig|signature|code)=)[^&\s"']+`), "$1***"},
}

// trouble is what systems write behind the name of a file, which may be that of a field: nothing secret begins with it.
var trouble = regexp.MustCompile(`^: (no such file|file does not exist|file already exists|file exists|permission denied|` +
	`operation not permitted|is a directory|not a directory|path escapes from parent|too many |file name too long|` +
	`read-only file system|no space left on device|input/output error|The system cannot find|Access is denied)`)

// Redact makes a provider's own words fit for a log: the keys given and everything that looks like one are taken out, the rest
// is cut to 2 KiB of valid UTF-8.
func Redact(text string, keys ...string) string { return RedactTo(maxCause, text, keys...) }

// RedactTo is [Redact] that cuts to most bytes.
func RedactTo(most int, text string, keys ...string) string {
	// Cut generously first, so that a huge body costs no more than a small one; and again afterwards.
	long := len(text) > 4*most
	text = cut(text, 4*most)
	longest := 0
	for _, key := range keys {
		if key != "" {
			text = strings.ReplaceAll(text, key, "***")
			longest = max(longest, len(key))
		}
	}
	for _, s := range secrets {
		text = replace(text, s.shape, s.with)
	}
	if long { // the first cut may have gone through a key, of which the rest is not known any more for what it is
		text = cut(text, max(0, len(text)-len("…")-longest))
	}
	return cut(text, most)
}

// replace replaces what has the shape, but where it says what is wrong with a file.
func replace(text string, shape *regexp.Regexp, with string) string {
	var out []byte
	done := 0
	for _, at := range shape.FindAllStringSubmatchIndex(text, -1) {
		if named := strings.IndexByte(text[at[0]:at[1]], ':'); named >= 0 && trouble.MatchString(text[at[0]+named:]) {
			continue
		}
		out = append(out, text[done:at[0]]...)
		out = shape.ExpandString(out, with, text, at)
		done = at[1]
	}
	if done == 0 {
		return text
	}
	return string(append(out, text[done:]...))
}

// RedactError makes an error for the log of one whose text may hold a URL or a key. It does not unwrap: what is inside may
// hold the same.
func RedactError(err error, keys ...string) error {
	if err == nil {
		return nil
	}
	return errors.New(Redact(err.Error(), keys...))
}

// cut shortens text to at most n bytes, without half runes.
func cut(text string, n int) string {
	return strings.ToValidUTF8(wording.ClipTo(text, n), "\uFFFD")
}
