package config

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/internal/yaml"
)

// Print writes the settings as a configuration file, with the source of each value behind it. Secrets are stars.
func (c *Config) Print(w io.Writer) error {
	type line struct{ text, source string }
	var lines []line
	width, open := 0, ""
	for _, s := range c.settings {
		if s.optional && c.sources[s.Key].Kind == Default {
			continue
		}
		path := s.path
		last := len(path) - 1
		for depth := range last {
			section := yaml.Path(path[:depth+1]...) + "."
			if !strings.HasPrefix(open, section) {
				lines = append(lines, line{text: strings.Repeat("  ", depth) + quote(path[depth], true) + ":"})
			}
		}
		open = s.Key
		text := strings.Repeat("  ", last) + path[last] + ": " + s.yaml()
		if s.Key == "config" { // which the file cannot set
			text = "# " + text
		}
		width = max(width, len(text))
		lines = append(lines, line{text, c.sources[s.Key].String()})
	}
	var b strings.Builder
	for _, l := range lines {
		if l.source == "" {
			fmt.Fprintln(&b, l.text)
			continue
		}
		fmt.Fprintf(&b, "%-*s  # %s\n", width, l.text, l.source)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// bare is text that needs no quotes in YAML. A colon before a space, a leading sign and the like do.
var bare = regexp.MustCompile(`^[A-Za-z0-9./][A-Za-z0-9._/:@+-]*$`)

// yaml returns the value as the file has it.
func (s Setting) yaml() string {
	if !s.kind.list {
		return quote(s.text(), s.kind.text)
	}
	items := []string{}
	switch {
	case !s.Secret:
		items = s.items()
	case s.field.Len() > 0:
		items = []string{stars} // the number of secrets is not shown
	}
	for i, item := range items {
		items[i] = quote(item, true)
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// quote leaves plain words plain. Text that YAML would read as something else gets quotes.
func quote(text string, isText bool) string {
	if !isText {
		return text
	}
	_, err := strconv.ParseFloat(text, 64)
	if bare.MatchString(text) && err != nil && !strings.HasSuffix(text, ":") && !slices.Contains([]string{"true", "false", "null"}, strings.ToLower(text)) {
		return text
	}
	return strconv.Quote(text)
}
